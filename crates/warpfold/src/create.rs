//! Tensors of nothing but a shape: constants, sequences, random numbers; and of Rust's arrays.

use half::{bf16, f16};
use warpfold_device::Device;
use warpfold_kernels::generate::{Distribution, Generate, Problem, Sequence};
use warpfold_kernels::operations::Number;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::Allocated;
use crate::{Queue, Shape, Tensor, TensorElement};

/// Creation. The last argument says where: a [`Device`], or a [`Queue`] of one.
impl Tensor {
    /// A tensor of what a number, an array, an array of arrays, a slice or a `Vec` holds.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1.0_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!((x.dims(), x.to_vec2::<f32>()?), (&[2, 2][..], vec![vec![1.0, 2.0], vec![3.0, 4.0]]));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for rows of different lengths, and what the device says.
    pub fn new<A: Nested>(elements: A, at: impl Into<Queue>) -> Result<Self, Error> {
        let (shape, mut flat) = (elements.sizes()?, Vec::new());
        elements.collect(&mut flat);
        Self::from_bytes(&at.into(), A::Element::DTYPE, bytemuck::cast_slice(&flat), &shape)
    }

    /// A tensor of these elements, in C order.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::from_vec(vec![1_f32, 2.0, 3.0, 4.0], (2, 2), &device)?.dims(), [2, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`] unless the shape has as many elements.
    pub fn from_vec<T: TensorElement>(
        elements: Vec<T>,
        shape: impl Into<Shape>,
        at: impl Into<Queue>,
    ) -> Result<Self, Error> {
        Self::from_bytes(&at.into(), T::DTYPE, bytemuck::cast_slice(&elements), shape.into().sizes())
    }

    /// A tensor of one axis of what an iterator gives.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::from_iter((0..3).map(|i| i as f32), &device)?.to_vec::<f32>()?, [0.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn from_iter<T: TensorElement>(
        elements: impl IntoIterator<Item = T>,
        at: impl Into<Queue>,
    ) -> Result<Self, Error> {
        let elements: Vec<T> = elements.into_iter().collect();
        let len = elements.len();
        Self::from_vec(elements, len, at)
    }

    /// Zeros.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::zeros((2, 2), Dtype::F32, &device)?.to_vec::<f32>()?, [0.0; 4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], and what the device says.
    pub fn zeros(shape: impl Into<Shape>, dtype: Dtype, at: impl Into<Queue>) -> Result<Self, Error> {
        Self::filled(&at.into(), dtype, 0, shape)
    }

    /// Ones.
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::ones((2, 2), DType::F32, &device)?.to_vec::<f32>()?, [1.0, 1.0, 1.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], and what the device says.
    pub fn ones(shape: impl Into<Shape>, dtype: Dtype, at: impl Into<Queue>) -> Result<Self, Error> {
        Self::filled(&at.into(), dtype, 1, shape)
    }

    /// One number everywhere, whose type is the elements'.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::full(7_f32, 3, &device)?.to_vec::<f32>()?, [7.0, 7.0, 7.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], and what the device says.
    pub fn full<T: TensorElement + Into<Number>>(
        number: T,
        shape: impl Into<Shape>,
        at: impl Into<Queue>,
    ) -> Result<Self, Error> {
        Self::filled(&at.into(), T::DTYPE, number, shape)
    }

    /// Zeros of this tensor's shape and type.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.zeros_like()?.to_vec::<f32>()?, [0.0, 0.0, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn zeros_like(&self) -> Result<Self, Error> {
        self.full_like(0)
    }

    /// Ones of this tensor's shape and type.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.ones_like()?.to_vec::<f32>()?, [1.0, 1.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn ones_like(&self) -> Result<Self, Error> {
        self.full_like(1)
    }

    /// One number, in this tensor's shape and type.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.full_like(2.5)?.to_vec::<f32>()?, [2.5, 2.5, 2.5]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn full_like(&self, number: impl Into<Number>) -> Result<Self, Error> {
        Self::filled(self.queue(), self.dtype(), number, self.shape())
    }

    /// The numbers from `start` up to, but not, `end`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::arange(0_f32, 3.0, &device)?.to_vec::<f32>()?, [0.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::arange_step`].
    pub fn arange<T: TensorElement + Into<Number>>(start: T, end: T, at: impl Into<Queue>) -> Result<Self, Error> {
        Self::sequence(T::DTYPE, start.into(), end.into(), Number::Integer(1), &at.into())
    }

    /// The numbers from `start` up to, but not, `end`, every `step`-th: `start + i * step`, floats
    /// computed in `f64`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::arange_step(0_f32, 10.0, 4.0, &device)?.to_vec::<f32>()?, [0.0, 4.0, 8.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OptionOutOfRange`] for a step of 0 or NaN, and for ends without a number of
    /// steps between them.
    pub fn arange_step<T: TensorElement + Into<Number>>(
        start: T,
        end: T,
        step: T,
        at: impl Into<Queue>,
    ) -> Result<Self, Error> {
        Self::sequence(T::DTYPE, start.into(), end.into(), step.into(), &at.into())
    }

    fn sequence(dtype: Dtype, start: Number, end: Number, step: Number, queue: &Queue) -> Result<Self, Error> {
        let bad = |option, expected: &str| {
            Error::from(ErrorKind::OptionOutOfRange { op: "arange".to_owned(), option, expected: expected.to_owned() })
        };
        let len = match (start, end, step) {
            (Number::Integer(start), Number::Integer(end), Number::Integer(step)) => {
                if step == 0 {
                    return Err(bad("step", "other than 0"));
                }
                // Towards the end, rounded up; none if the step leads away from it.
                let (distance, step) = if step > 0 { (end - start, step) } else { (start - end, -step) };
                usize::try_from((distance.max(0) + step - 1) / step).map_err(|_| bad("end", "nearer to 'start'"))?
            }
            _ => {
                let real = |number| match number {
                    Number::Integer(i) => i as f64,
                    Number::Float(x) => x,
                };
                let steps = ((real(end) - real(start)) / real(step)).ceil();
                if !steps.is_finite() || real(step) == 0.0 || steps > isize::MAX as f64 {
                    return Err(bad("step", "that leads from 'start' to 'end' in a finite number of steps"));
                }
                steps.max(0.0) as usize
            }
        };
        Self::generate(Sequence::Arithmetic { start, step }, dtype, Shape::from(len), queue)
    }

    /// `steps` numbers from `start` to `end`, both among them, at equal distances.
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 3, DType::F32, &device)?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless the elements are floats, and what the device says.
    pub fn linspace(start: f64, end: f64, steps: usize, dtype: Dtype, at: impl Into<Queue>) -> Result<Self, Error> {
        if !dtype.is_float() {
            return Err(ErrorKind::Unsupported { op: "linspace".to_owned(), dtype }.into());
        }
        let step = if steps > 1 { (end - start) / (steps - 1) as f64 } else { 0.0 };
        let sequence = Sequence::Arithmetic { start: start.into(), step: step.into() };
        Self::generate(sequence, dtype, Shape::from(steps), &at.into())
    }

    /// The identity matrix of `n` rows.
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::eye(2, DType::F32, &device)?.to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn eye(n: usize, dtype: Dtype, at: impl Into<Queue>) -> Result<Self, Error> {
        Self::compared(n, dtype, &at.into(), |row, column| row.eq(column))
    }

    /// Ones on and below the diagonal of a matrix of `n` rows, zeros above.
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::tril2(2, DType::F32, &device)?.to_vec::<f32>()?, [1.0, 0.0, 1.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn tril2(n: usize, dtype: Dtype, at: impl Into<Queue>) -> Result<Self, Error> {
        Self::compared(n, dtype, &at.into(), |row, column| row.ge(column))
    }

    /// Ones on and above the diagonal of a matrix of `n` rows, zeros below.
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::triu2(2, DType::F32, &device)?.to_vec::<f32>()?, [1.0, 1.0, 0.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn triu2(n: usize, dtype: Dtype, at: impl Into<Queue>) -> Result<Self, Error> {
        Self::compared(n, dtype, &at.into(), |row, column| row.le(column))
    }

    fn compared(
        n: usize,
        dtype: Dtype,
        queue: &Queue,
        compare: impl Fn(&Self, &Self) -> Result<Self, Error>,
    ) -> Result<Self, Error> {
        let positions = Self::arange(0, n as i64, queue)?;
        compare(&positions.unsqueeze(1)?, &positions)?.cast(dtype)
    }

    /// Elements of any content, to be written before they are read.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::empty((2, 3), Dtype::F32, &device)?;
    /// assert_eq!(x.shape(), [2, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], and what the device says.
    pub fn empty(shape: impl Into<Shape>, dtype: Dtype, at: impl Into<Queue>) -> Result<Self, Error> {
        Self::uninitialized(&at.into(), dtype, shape.into().sizes())
    }

    /// Elements of any content, as many and of the type of another tensor's.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[1_f32, 2.0], &device)?;
    /// assert_eq!(x.empty_like()?.shape(), [2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn empty_like(&self) -> Result<Self, Error> {
        Self::uninitialized(self.queue(), self.dtype(), self.shape())
    }

    /// The numbers below `n`, as `i64`, in a random order; from the queue's
    /// [seed](Queue::set_seed).
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::randperm(4, &device)?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?, 6.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn randperm(n: usize, at: impl Into<Queue>) -> Result<Self, Error> {
        Self::rand(0_f64, 1.0, n, at)?.argsort(0)
    }

    /// Random numbers from `low` up to `high`, whose type is the elements'; from the queue's
    /// [seed](Queue::set_seed).
    ///
    /// ```
    /// use warpfold::{Device, Profile, Queue, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// Queue::of(&device).set_seed(42);
    /// let x = Tensor::rand(-1.0_f32, 1.0, (3, 4), &device)?;
    /// assert!(x.to_vec::<f32>()?.iter().all(|x| (-1.0..1.0).contains(x)));
    /// Queue::of(&device).set_seed(42);
    /// assert_eq!(Tensor::rand(-1.0_f32, 1.0, (3, 4), &device)?.to_vec::<f32>()?, x.to_vec::<f32>()?);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless they are floats, [`ErrorKind::OptionOutOfRange`] for an
    /// empty range.
    pub fn rand<T: TensorElement + Into<f64>>(
        low: T,
        high: T,
        shape: impl Into<Shape>,
        at: impl Into<Queue>,
    ) -> Result<Self, Error> {
        let distribution = Distribution::Uniform { low: low.into(), high: high.into() };
        Self::random(distribution, T::DTYPE, shape, &at.into())
    }

    /// Random numbers with this mean and standard deviation, as [`Tensor::rand`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::randn(0_f32, 1.0, (2, 3), &device)?.dims(), [2, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless they are floats, [`ErrorKind::OptionOutOfRange`] for a
    /// negative deviation.
    pub fn randn<T: TensorElement + Into<f64>>(
        mean: T,
        std: T,
        shape: impl Into<Shape>,
        at: impl Into<Queue>,
    ) -> Result<Self, Error> {
        let distribution = Distribution::Normal { mean: mean.into(), std: std.into() };
        Self::random(distribution, T::DTYPE, shape, &at.into())
    }

    /// Random integers from `low` up to, but not, `high`, as `i64`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let drawn = Tensor::randint(0, 6, 100, &device)?.to_vec::<i64>()?;
    /// assert!(drawn.iter().all(|n| (0..6).contains(n)));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OptionOutOfRange`] for an empty range.
    pub fn randint(low: i64, high: i64, shape: impl Into<Shape>, at: impl Into<Queue>) -> Result<Self, Error> {
        Self::random(Distribution::Integers { low, high }, Dtype::I64, shape, &at.into())
    }

    /// Random numbers from `low` up to `high`, in this tensor's shape and type.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.rand_like(0.0, 1.0)?.dims(), [2, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless the elements are floats.
    pub fn rand_like(&self, low: f64, high: f64) -> Result<Self, Error> {
        Self::random(Distribution::Uniform { low, high }, self.dtype(), self.shape(), self.queue())
    }

    /// Random numbers of a normal distribution, in this tensor's shape and type.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.randn_like(0.0, 1.0)?.dims(), [2, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless the elements are floats.
    pub fn randn_like(&self, mean: f64, std: f64) -> Result<Self, Error> {
        Self::random(Distribution::Normal { mean, std }, self.dtype(), self.shape(), self.queue())
    }

    /// Random numbers of a distribution.
    ///
    /// # Errors
    /// Those of [`Problem::new`].
    pub fn random(
        distribution: Distribution,
        dtype: Dtype,
        shape: impl Into<Shape>,
        queue: &Queue,
    ) -> Result<Self, Error> {
        let (seed, draw) = queue.next_draw();
        Self::generate(Sequence::Random { distribution, seed, draw }, dtype, shape.into(), queue)
    }

    fn generate(sequence: Sequence, dtype: Dtype, shape: Shape, queue: &Queue) -> Result<Self, Error> {
        let mut output = Allocated::new(queue, dtype, shape.sizes())?;
        let problem = Problem::new(sequence, dtype, output.layout.len() as u64)?;
        queue.run(&Generate, problem, &[], &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }
}

impl From<&Device> for Queue {
    fn from(device: &Device) -> Self {
        Self::of(device)
    }
}

impl From<&Self> for Queue {
    fn from(queue: &Self) -> Self {
        queue.clone()
    }
}

/// Arguments of [`Tensor::new`]: a number, or arrays, slices and `Vec`s of arguments.
pub trait Nested {
    /// The type of the numbers.
    type Element: TensorElement;

    /// The lengths, outermost first.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for rows of different lengths.
    fn sizes(&self) -> Result<Vec<usize>, Error>;

    /// Adds all numbers in C order.
    fn collect(&self, flat: &mut Vec<Self::Element>);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Nested for $number {
            type Element = Self;

            fn sizes(&self) -> Result<Vec<usize>, Error> {
                Ok(Vec::new())
            }

            fn collect(&self, flat: &mut Vec<Self>) {
                flat.push(*self);
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64);

impl<N: Nested> Nested for [N] {
    type Element = N::Element;

    fn sizes(&self) -> Result<Vec<usize>, Error> {
        let Some(first) = self.first() else { return Ok(vec![0]) };
        let inner = first.sizes()?;
        for (row, other) in self.iter().enumerate().skip(1) {
            let other = other.sizes()?;
            if other != inner {
                let reason = format!("row {row} has sizes {other:?}, row 0 has {inner:?}");
                return Err(ErrorKind::Operand { operator: "Tensor::new", reason }.into());
            }
        }
        Ok([vec![self.len()], inner].concat())
    }

    fn collect(&self, flat: &mut Vec<N::Element>) {
        self.iter().for_each(|inner| inner.collect(flat));
    }
}

impl<N: Nested, const LEN: usize> Nested for [N; LEN] {
    type Element = N::Element;

    fn sizes(&self) -> Result<Vec<usize>, Error> {
        self[..].sizes()
    }

    fn collect(&self, flat: &mut Vec<N::Element>) {
        self[..].collect(flat);
    }
}

impl<N: Nested> Nested for Vec<N> {
    type Element = N::Element;

    fn sizes(&self) -> Result<Vec<usize>, Error> {
        self[..].sizes()
    }

    fn collect(&self, flat: &mut Vec<N::Element>) {
        self[..].collect(flat);
    }
}

impl<N: Nested + ?Sized> Nested for &N {
    type Element = N::Element;

    fn sizes(&self) -> Result<Vec<usize>, Error> {
        (**self).sizes()
    }

    fn collect(&self, flat: &mut Vec<N::Element>) {
        (**self).collect(flat);
    }
}
