//! What a kernel knows of a convolution when it is built, so that divisions are by constants.

use warpfold_lang::Val;

use super::problem::{Layout, Problem, Window};

/// The order of the elements of a filter, and of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// Channel, row, column.
    ChannelsFirst,
    /// Row, column, channel.
    ChannelsLast,
}

/// Filters and how they walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Geometry {
    /// Channels of a group.
    pub channels: u32,
    /// Height and width of a filter.
    pub filter: [u32; 2],
    /// How the filters walk.
    pub window: Window,
    /// The order of a filter's elements.
    pub order: Order,
}

/// An element of a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tap {
    pub(super) channel: Val<u32>,
    /// Its row and column.
    pub(super) place: [Val<u32>; 2],
}

impl Geometry {
    /// That of a problem.
    pub(super) fn of(problem: &Problem) -> Self {
        let order = match problem.layout {
            Layout::Nchw => Order::ChannelsFirst,
            Layout::Nhwc => Order::ChannelsLast,
        };
        let channels = (problem.channels / problem.groups) as u32;
        Self { channels, filter: problem.filter.map(|side| side as u32), window: problem.window, order }
    }

    /// Elements of a filter.
    pub(super) const fn depth(&self) -> u32 {
        self.channels * self.filter[0] * self.filter[1]
    }

    /// The element at a place of a sum.
    pub(super) fn tap(&self, l: Val<u32>) -> Tap {
        let [rows, columns] = self.filter;
        let divide = |number: Val<u32>, by: u32| match by {
            1 => (number, Val::constant(0)),
            _ => (number / by, number % by),
        };
        match self.order {
            Order::ChannelsFirst => {
                let (rest, column) = divide(l, columns);
                let (channel, row) = divide(rest, rows);
                Tap { channel, place: [row, column] }
            }
            Order::ChannelsLast => {
                let (rest, channel) = divide(l, self.channels.max(1));
                let (row, column) = divide(rest, columns);
                Tap { channel, place: [row, column] }
            }
        }
    }

    /// The first element of the filter for a pixel of the result, `width` of which are a row:
    /// may be outside.
    pub(super) fn corner(&self, pixel: Val<u32>, width: Val<u32>) -> [Val<i32>; 2] {
        let row = pixel / width;
        let place = [row, pixel - row * width];
        let Window { stride, padding, .. } = self.window;
        [0, 1].map(|i| (place[i] * stride[i]).cast::<i32>() - padding[i] as i32)
    }

    /// The image of a pixel of all results, `of_image` of which are one's, and where the filter's
    /// first element lies there.
    pub(super) fn corner_in(&self, of_image: Val<u32>, width: Val<u32>, pixel: Val<u32>) -> (Val<u32>, [Val<i32>; 2]) {
        let image = pixel / of_image;
        (image, self.corner(pixel - image * of_image, width))
    }

    /// As part of a kernel's name.
    pub(super) fn key(&self) -> String {
        let Window { stride: [u, v], padding: [a, b], dilation: [d, e] } = self.window;
        let [r, s] = self.filter;
        let order = if self.order == Order::ChannelsFirst { "crs" } else { "rsc" };
        format!("{order}_c{}_{r}x{s}_s{u}x{v}_p{a}x{b}_d{d}x{e}", self.channels)
    }
}
