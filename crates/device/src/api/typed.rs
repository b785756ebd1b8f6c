//! Typed launches: the Rust compiler compares the arguments with the kernel's parameters.

use warpfold_lang::{self as lang, Argument, Bf16x2, F16x2, Global, Kernel, Params, Sink};

use crate::Error;
use crate::api::arguments::Arguments;
use crate::api::buffer::{Buffer, View, ViewMut};
use crate::api::device::Device;
use crate::api::element::Element;
use crate::api::stream::Stream;
use crate::backend::LaunchConfig;

/// Collector of the arguments of a typed launch; made by [`Device::launch`] alone.
#[derive(Debug)]
pub struct Packet {
    arguments: Arguments<'static>,
}

impl Packet {
    pub(crate) fn arguments_mut(&mut self) -> &mut Arguments<'static> {
        &mut self.arguments
    }
}

impl Sink for Packet {
    type Error = Error;

    fn push(&mut self, little_endian: &[u8], align: usize) -> Result<(), Error> {
        self.arguments.push(little_endian, align);
        Ok(())
    }
}

/// Typed launches.
impl Device {
    /// Launches a kernel on the default stream, building and loading it first if necessary.
    ///
    /// A buffer that the kernel writes is passed as `&mut`, one that it reads as `&`; views of
    /// parts likewise. A scalar is passed as itself. Dynamic shared memory that the kernel declares
    /// is given without asking for it.
    ///
    /// The wrong type, order or number of arguments is a compile error:
    /// ```compile_fail,E0277
    /// # use warpfold_device::{Device, LaunchConfig, Profile};
    /// # use warpfold_lang::{Global, Val, kernel, thread_idx};
    /// let fill = kernel("fill", |out: Global<f32>, value: Val<f32>| out.at(thread_idx().x).set(value));
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let mut integers = device.alloc::<i32>(32).unwrap();
    /// device.launch(&fill, LaunchConfig::new(1, 32), (&mut integers, 1.0)).unwrap();
    /// ```
    /// With the right ones it runs:
    /// ```
    /// # use warpfold_device::{Device, LaunchConfig, Profile};
    /// # use warpfold_lang::{Global, Val, kernel, thread_idx};
    /// let fill = kernel("fill", |out: Global<f32>, value: Val<f32>| out.at(thread_idx().x).set(value));
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let mut floats = device.alloc::<f32>(32)?;
    /// device.launch(&fill, LaunchConfig::new(1, 32), (&mut floats, 1.0))?;
    /// assert_eq!(floats.download()?, [1.0; 32]);
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Stream::launch_raw`], and [`ErrorKind::Build`](crate::ErrorKind::Build),
    /// [`ErrorKind::Jit`](crate::ErrorKind::Jit) or [`ErrorKind::Load`](crate::ErrorKind::Load) the
    /// first time.
    pub fn launch<Ps: Params>(
        &self,
        kernel: &Kernel<Ps>,
        config: LaunchConfig,
        arguments: impl lang::Arguments<Ps, Packet>,
    ) -> Result<(), Error> {
        self.default_stream().launch(kernel, config, arguments)
    }
}

/// Typed launches.
impl Stream {
    /// Launches on this stream; see [`Device::launch`].
    ///
    /// # Errors
    /// Those of [`Device::launch`].
    pub fn launch<Ps: Params>(
        &self,
        kernel: &Kernel<Ps>,
        config: LaunchConfig,
        arguments: impl lang::Arguments<Ps, Packet>,
    ) -> Result<(), Error> {
        let prepared = self.device().prepared(kernel)?;
        let mut packet = Packet { arguments: Arguments::new() };
        arguments.pass_all(&mut packet)?;
        self.run_kernel(&prepared, config, &packet.arguments)
    }
}

/// Buffers and views are passed for pointers: those that are written by unique reference.
macro_rules! pointers {
    ($([$($param:tt)*] $element:ty => $pointee:ty;)*) => {$(
        impl<$($param)*> Argument<Global<$pointee>, Packet> for &Buffer<$element> {
            fn pass(self, packet: &mut Packet) -> Result<(), Error> {
                packet.arguments.push_input(&self.as_view());
                Ok(())
            }
        }

        impl<$($param)*> Argument<Global<$pointee>, Packet> for &mut Buffer<$element> {
            fn pass(self, packet: &mut Packet) -> Result<(), Error> {
                packet.arguments.push_output(&self.as_view_mut());
                Ok(())
            }
        }

        impl<$($param)*> Argument<Global<$pointee>, Packet> for View<'_, $element> {
            fn pass(self, packet: &mut Packet) -> Result<(), Error> {
                packet.arguments.push_input(&self);
                Ok(())
            }
        }

        impl<$($param)*> Argument<Global<$pointee>, Packet> for &View<'_, $element> {
            fn pass(self, packet: &mut Packet) -> Result<(), Error> {
                packet.arguments.push_input(self);
                Ok(())
            }
        }

        impl<$($param)*> Argument<Global<$pointee>, Packet> for ViewMut<'_, $element> {
            fn pass(self, packet: &mut Packet) -> Result<(), Error> {
                packet.arguments.push_output(&self);
                Ok(())
            }
        }

        impl<$($param)*> Argument<Global<$pointee>, Packet> for &mut ViewMut<'_, $element> {
            fn pass(self, packet: &mut Packet) -> Result<(), Error> {
                packet.arguments.push_output(self);
                Ok(())
            }
        }
    )*};
}

pointers! {
    [T: Element + lang::Element] T => T;
    // A kernel may access f16 and bf16 in pairs.
    [] half::f16 => F16x2;
    [] half::bf16 => Bf16x2;
}
