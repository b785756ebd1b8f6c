//! The convolutions that plans were timed with, and that benches and the ladder `conv` measure.

/// The catalogue's problems: images, channels, height, width, filters, their height and width, strides, padding.
pub const PROBLEMS: [[u32; 11]; 7] = [
    [128, 3, 225, 225, 32, 3, 3, 2, 2, 0, 0],
    [49, 128, 35, 35, 384, 3, 3, 2, 2, 0, 0],
    [16, 128, 105, 105, 256, 3, 3, 2, 2, 0, 0],
    [128, 3, 230, 230, 64, 7, 7, 2, 2, 0, 0],
    [2, 3, 838, 1350, 64, 7, 7, 2, 2, 0, 0],
    [256, 256, 28, 28, 256, 2, 2, 2, 2, 0, 0],
    [128, 3, 225, 225, 32, 3, 3, 1, 1, 0, 0],
];
