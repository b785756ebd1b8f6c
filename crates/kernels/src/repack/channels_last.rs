//! Images and filters to channels last, as TMA in im2col mode reads them: padded to whole pieces,
//! with zeros where nothing was.
//!
//! One launch does both. Neighbouring lanes take neighbouring pixels, so that planes of channels
//! are read coalesced. A thread writes few channels of a pixel itself; many channels are transposed
//! in shared memory, so that stores are coalesced as well.

use warpfold_device::LaunchConfig;
use warpfold_lang::{
    Global, Kernel, Number, Operand, Shared, Strided, Val, block_idx, kernel, params, shared_named, sync_threads,
    thread_idx, wait_for_dependencies, when, when_else,
};

use crate::plan::{self, Plan, Planned, Planner, Step, TensorSpec};

/// Threads of a block.
const BLOCK: u32 = 256;
const WARPS: u32 = BLOCK / 32;
/// Pixels of a tile.
const PIXELS: u32 = 64;
/// Bytes of a tile's channels of a pixel.
const TILE_BYTES: u32 = 128;
params! {
    /// Parameters of the kernel.
    struct RepackArgs {
        /// Images, channels, rows, columns.
        images: Strided<4>, filters: Strided<4>,
        /// Where they go.
        to_images: Option<Global<u8>>, to_filters: Option<Global<u8>>,
        /// Blocks for the images.
        blocks: u32,
        /// Pixels of a row where they go, zeros before it among them.
        images_width: u32, images_left: u32, filters_width: u32,
        /// Pixels of all.
        images_pixels: u32, filters_pixels: u32,
    }
}

/// What decides on the code of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RepackConfig {
    /// Bytes of an element: 2 or 4.
    pub(crate) element_bytes: u32,
    /// Channels before.
    pub(crate) channels: u32,
    /// Channels after: 8 bytes, or a multiple of 16.
    pub(crate) padded: u32,
}

impl RepackConfig {
    const fn pixel_bytes(self) -> u32 {
        self.padded * self.element_bytes
    }

    /// Whether a thread writes all channels of a pixel.
    const fn is_direct(self) -> bool {
        self.pixel_bytes() <= 32
    }

    /// Channels of a tile.
    const fn tile_channels(self) -> u32 {
        TILE_BYTES / self.element_bytes
    }

    /// Tiles side by side over the channels of a pixel.
    const fn across(self) -> u32 {
        self.padded.div_ceil(self.tile_channels())
    }

    /// Blocks for this many pixels.
    fn num_blocks(self, pixels: u64) -> u64 {
        if self.is_direct() {
            pixels.div_ceil(BLOCK.into())
        } else {
            pixels.div_ceil(PIXELS.into()) * u64::from(self.across())
        }
    }
}

/// Images and filters that are repacked. Of what stays where it lies there are no pixels.
#[derive(Debug, Clone)]
pub(crate) struct ChannelsLast {
    pub(crate) config: RepackConfig,
    /// Images, channels, rows, columns.
    pub(crate) tensors: [TensorSpec; 2],
    /// Pixels of a row where they go.
    pub(crate) widths: [u64; 2],
    /// Zeros before a row of the images.
    pub(crate) left: u64,
    /// Pixels of all.
    pub(crate) pixels: [u64; 2],
}

impl ChannelsLast {
    /// Bytes that images and filters take afterwards.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        self.pixels.map(|pixels| pixels * u64::from(self.config.pixel_bytes()))
    }

    /// Adds the launch that repacks two tensors, and gives the memory where they are then.
    pub(crate) fn add_to(
        &self,
        plan: &mut Plan,
        tensors: [plan::Operand; 2],
        planner: &Planner<'_>,
    ) -> [plan::Operand; 2] {
        let blocks = self.pixels.map(|pixels| self.config.num_blocks(pixels));
        let config = LaunchConfig::new(blocks.iter().sum::<u64>() as u32, BLOCK);
        let to = self.bytes().map(|bytes| (bytes > 0).then(|| plan.add_scratch(bytes)));
        let args = RepackArgs::<Planned> {
            images: self.tensors[0].at(tensors[0]),
            filters: self.tensors[1].at(tensors[1]),
            to_images: to[0],
            to_filters: to[1],
            blocks: blocks[0] as u32,
            images_width: self.widths[0] as u32,
            images_left: self.left as u32,
            filters_width: self.widths[1] as u32,
            images_pixels: self.pixels[0] as u32,
            filters_pixels: self.pixels[1] as u32,
        };
        let step = Step::new(planner.kernel(self.config, repack), config);
        plan.steps.push(step.with(args).expect("a convolution that was checked has sizes of 32 bits"));
        [0, 1].map(|i| to[i].unwrap_or(tensors[i]))
    }
}

/// A tensor and where it goes, while the kernel is recorded.
struct Job {
    config: RepackConfig,
    from: Strided<4>,
    to: Global<u8>,
    /// The block's number among those of the tensor.
    block: Val<u32>,
    /// Pixels of a row where they go, zeros before it among them, pixels of all.
    width: Val<u32>,
    left: Val<u32>,
    pixels: Val<u32>,
}

/// The kernel.
fn repack(config: &RepackConfig) -> Kernel<RepackArgs> {
    let config = *config;
    let RepackConfig { element_bytes, channels, padded } = config;
    let body = move |args: RepackArgs| {
        wait_for_dependencies();
        let block = block_idx().x;
        let images = || Job {
            config,
            from: args.images,
            to: args.to_images,
            block,
            width: args.images_width,
            left: args.images_left,
            pixels: args.images_pixels,
        };
        let filters = || Job {
            config,
            from: args.filters,
            to: args.to_filters,
            block: block - args.blocks,
            width: args.filters_width,
            left: Val::constant(0),
            pixels: args.filters_pixels,
        };
        when_else(block.lt(args.blocks), || images().run(), || filters().run());
    };
    kernel(format!("repack_channels_last_{element_bytes}_c{channels}_{padded}"), body).required_block(BLOCK)
}

/// A pixel where it goes, and where it comes from.
struct Pixel {
    /// Its number among those that are written.
    number: Val<u32>,
    exists: Val<bool>,
    /// Whether it is no zero.
    is_inside: Val<bool>,
    /// Elements before its first channel.
    first: Val<i64>,
}

impl Job {
    fn run(&self) {
        match (self.config.is_direct(), self.config.element_bytes) {
            (true, 2) => self.write_pixel::<u16>(),
            (true, _) => self.write_pixel::<u32>(),
            (false, 2) => self.turn::<u16>(),
            (false, _) => self.turn::<u32>(),
        }
    }

    fn pixel(&self, number: Val<u32>) -> Pixel {
        let [height, width] = [2, 3].map(|dim| self.from.size(dim));
        let rows = number / self.width;
        let column = number - rows * self.width - self.left;
        let image = rows / height;
        let row = rows - image * height;
        let [of_image, of_row, of_column] = [0, 2, 3].map(|dim| self.from.stride(dim));
        let exists = number.lt(self.pixels);
        // Of a number below 0 the bits are those of a large one.
        let is_inside = exists & column.lt(width);
        let first = image.cast::<i64>() * of_image + row.cast::<i64>() * of_row + column.cast::<i64>() * of_column;
        Pixel { number, exists, is_inside, first }
    }

    /// A channel of a pixel, or zero.
    fn get<E: Number>(&self, pixel: &Pixel, channel: Val<u32>) -> Val<E>
    where
        Val<E>: Operand<E>,
    {
        let RepackConfig { element_bytes, channels, .. } = self.config;
        let place = channel.cast::<i64>() * self.from.stride(1) + pixel.first;
        let from = self.from.base().at(place * i64::from(element_bytes)).reinterpret::<E>();
        from.get_or(Val::constant(E::ZERO), pixel.is_inside & channel.lt(channels))
    }

    /// Where a channel of a pixel goes.
    fn place(&self, pixel: Val<u32>, channel: Val<u32>) -> Global<u32> {
        let RepackConfig { element_bytes, padded, .. } = self.config;
        let place = pixel.cast::<u64>() * u64::from(padded) + channel.cast::<u64>();
        self.to.at(place * u64::from(element_bytes)).reinterpret::<u32>()
    }

    /// A thread writes a pixel.
    fn write_pixel<E: Number>(&self)
    where
        Val<E>: Operand<E>,
    {
        let pixel = self.pixel(self.block * BLOCK + thread_idx().x);
        when(pixel.exists, || {
            let channels = 0..self.config.padded;
            let values: Vec<_> = channels.map(|channel| self.get::<E>(&pixel, Val::constant(channel))).collect();
            let words = words(&values);
            let to = self.place(pixel.number, Val::constant(0));
            match *words.as_slice() {
                [a, b] => to.set_vec([a, b]),
                _ => {
                    for (i, four) in (0_u32..).zip(words.chunks_exact(4)) {
                        to.at(4 * i).set_vec([four[0], four[1], four[2], four[3]]);
                    }
                }
            }
        });
    }

    /// A block turns a tile: planes on one side, pixels on the other.
    fn turn<E: Number>(&self)
    where
        Val<E>: Operand<E>,
    {
        let RepackConfig { element_bytes, padded, .. } = self.config;
        let (channels, across) = (self.config.tile_channels(), self.config.across());
        // Shared-memory map: a word more than a plane's pixels, so that neither side meets a bank
        // twice.
        let pitch = PIXELS + 4 / element_bytes;
        let tile: Shared<E> = shared_named::<E>("tile", channels * pitch);
        // Roles
        let first = self.block / across * PIXELS;
        let first_channel = self.block % across * channels;
        let (warp, lane) = (thread_idx().x / 32, thread_idx().x % 32);
        // Load: all loads before the first store.
        let ats: Vec<_> = (0..PIXELS / 32).map(|i| lane + 32 * i).collect();
        let pixels: Vec<_> = ats.iter().map(|at| self.pixel(first + *at)).collect();
        let mut loaded = Vec::new();
        for row in (0..channels / WARPS).map(|i| warp + i * WARPS) {
            for (at, pixel) in ats.iter().zip(&pixels) {
                loaded.push((row * pitch + *at, self.get::<E>(pixel, first_channel + row)));
            }
        }
        for (place, value) in loaded {
            tile.at(place).set(value);
        }
        sync_threads();
        // Store: a thread has 16 bytes of a pixel's channels.
        let (pieces, elements) = (TILE_BYTES / 16, 16 / element_bytes);
        for i in 0..PIXELS * pieces / BLOCK {
            let at = thread_idx().x / pieces + i * (BLOCK / pieces);
            let channel = thread_idx().x % pieces * elements;
            when((first + at).lt(self.pixels) & (first_channel + channel).lt(padded), || {
                let values: Vec<_> = (0..elements).map(|j| tile.at((channel + j) * pitch + at).get()).collect();
                let words = words(&values);
                self.place(first + at, first_channel + channel).set_vec([words[0], words[1], words[2], words[3]]);
            });
        }
    }
}

/// Elements of 2 or 4 bytes as words.
fn words<E: Number>(values: &[Val<E>]) -> Vec<Val<u32>>
where
    Val<E>: Operand<E>,
{
    let words: Vec<_> = values.iter().map(|value| value.cast::<u32>()).collect();
    if E::BYTES == 4 { words } else { words.chunks_exact(2).map(|pair| pair[0] | (pair[1] << 16)).collect() }
}
