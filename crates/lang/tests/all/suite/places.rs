//! Memory of every space, width and kind of access; atomics.

use half::{bf16, f16};
use warpfold_lang::{
    AtomicAdd, AtomicBits, Cache, Element, F16x2, FixedRegisters, Global, Kernel, Order, Pointer, Registers, Scope,
    Space, Val, Word, commit_copies, dynamic_shared, fence, fence_sequential, kernel, local, shared, shared_named,
    sync_threads, thread_idx, var, wait_for_copies,
};

use super::Case;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(caches()),
        Case::new(orders()),
        Case::new(arrays()),
        Case::new(copies()),
        Case::new(indices()),
        Case::new(registers()),
        Case::new(predicates()),
        Case::new(atomic_words::<u32>("u32")),
        Case::new(atomic_words::<i32>("i32")),
        Case::new(atomic_words::<u64>("u64")),
        Case::new(atomic_words::<i64>("i64")),
        Case::new(atomic_sums()),
        Case::new(atomic_wrapping()),
    ];
    macro_rules! each {
        ($make:ident: $($rust:ident $widest:literal)*) => {
            $(cases.push(Case::new($make::<$rust, $widest>(stringify!($rust))));)*
        };
    }
    each!(vectors: u8 16 i8 16 u16 8 i16 8 f16 8 bf16 8 u32 4 f32 4 F16x2 4 u64 2 f64 2);
    cases
}

/// Two groups of copies of every size.
fn copies() -> Kernel<(Global<u32>, Global<f64>, u32)> {
    kernel("copies", |words: Global<u32>, numbers: Global<f64>, len: Val<u32>| {
        let thread = thread_idx().x;
        let (tile, other) = (shared::<u32>(1024), shared::<f64>(256));
        tile.at(thread * 4).copy_async::<4>(words.at(thread * 4));
        tile.at(thread * 2 + 512).copy_async::<2>(words.at(thread * 2));
        commit_copies();
        tile.at(thread + 896).copy_async_or_zero::<1>(words.at(thread), thread.lt(len));
        other.at(thread).copy_async_or_zero::<1>(numbers.at(thread), thread.lt(len));
        commit_copies();
        wait_for_copies(1);
        sync_threads();
        words.at(thread).set(tile.at(thread ^ 1).get());
        wait_for_copies(0);
        sync_threads();
        numbers.at(thread).set(other.at(thread ^ 1).get());
    })
}

fn vectors<T: Element, const WIDEST: usize>(name: &str) -> Kernel<(Global<T>, Global<T>, u32)> {
    kernel(format!("vectors_{name}"), |input: Global<T>, output: Global<T>, len: Val<u32>| {
        let thread = thread_idx().x;
        let inside = thread.lt(len);
        output.at(thread).set(input.at(thread).get());
        output.at(thread + 64).set_vec(input.at(thread * 2).get_vec::<2>());
        let place = thread * WIDEST as u32;
        let zero = Val::constant(T::from_bits(0));
        let values = input.at(place).get_vec_or::<WIDEST>(zero, inside);
        output.at(place).set_vec_if(values, inside);
        let tile = shared::<T>(1024);
        tile.at(place).set_vec(values);
        sync_threads();
        output.at(place).at(256).set_vec(tile.at(place).get_vec::<WIDEST>());
        output.at(1).set_if(tile.at(3).get_or(zero, inside), inside);
    })
}

fn caches() -> Kernel<(Global<f32>, Global<f32>)> {
    kernel("caches", |input: Global<f32>, output: Global<f32>| {
        let both = [
            Cache::Default,
            Cache::Volatile,
            Cache::Streaming,
            Cache::L2Only,
            Cache::EvictFirst,
            Cache::EvictLast,
            Cache::NoAllocate,
        ];
        for (i, cache) in both.into_iter().enumerate() {
            output.cache(cache).at(i).set(input.cache(cache).at(i).get());
        }
        for (i, cache) in [Cache::ReadOnly, Cache::ReadOnlyStreaming, Cache::LastUse].into_iter().enumerate() {
            output.at(8 + 4 * i).set_vec(input.cache(cache).at(8 + 4 * i).get_vec::<4>());
        }
        let tile = shared::<f32>(1).cache(Cache::Volatile);
        tile.set(1.0);
        output.set(tile.get());
    })
}

fn orders() -> Kernel<(Global<u32>, Global<u64>)> {
    kernel("orders", |words: Global<u32>, wide: Global<u64>| {
        for scope in [Scope::Block, Scope::Gpu, Scope::System] {
            let seen = words.load(Order::Acquire, scope);
            words.at(1).store(seen, Order::Release, scope);
            wide.at(1).store(wide.load(Order::Relaxed, scope), Order::Relaxed, scope);
            fence(scope);
            fence_sequential(scope);
        }
    })
}

fn arrays() -> Kernel<(Global<f32>, u32)> {
    kernel("arrays", |data: Global<f32>, index: Val<u32>| {
        let tile = shared_named::<f32>("tile", 32);
        let (first, second) = (dynamic_shared::<u8>(5), dynamic_shared::<f32>(100));
        let own = local::<f32>(8);
        for i in 0..8 {
            own.at(i).set(data.at(i).get());
        }
        tile.at(index).set(own.at(index).get());
        second.at(index).set(own.at(index & 7).get());
        first.at(index).set(1);
        first.at(1).set(2);
        sync_threads();
        data.set(tile.at(31 - index).get() + second.at(3).get() + first.get().cast::<f32>());
    })
}

fn indices() -> Kernel<(Global<u16>, u32, i32, u64, i64)> {
    kernel("indices", |data: Global<u16>, a: Val<u32>, b: Val<i32>, c: Val<u64>, d: Val<i64>| {
        let tile = shared::<u16>(64);
        fn sum<S: Space>(p: Pointer<u16, S>, a: Val<u32>, b: Val<i32>, c: Val<u64>, d: Val<i64>) -> Val<u16> {
            p.at(a).get() + p.at(b).get() + p.at(c).get() + p.at(d).get() + p.at(-1).get() + p.at(a).at(3_usize).get()
        }
        tile.at(a).set(sum(data, a, b, c, d));
        sync_threads();
        data.set(sum(tile.at(1), a, b, c, d));
        data.reinterpret::<u8>().at(a).set(7);
        data.at(1_u64 << 40).prefetch();
        data.at(d).at(-(1_i64 << 33)).reinterpret::<u64>().set(data.at(a).at(2).address() + tile.at(2).address());
    })
}

fn registers() -> Kernel<(Global<f32>, Global<u64>)> {
    kernel("registers", |floats: Global<f32>, words: Global<u64>| {
        let thread = thread_idx().x;
        type Pair = (Val<f32>, [Val<u64>; 2]);
        let mine: Pair = (floats.at(thread).get(), [words.at(thread).get(), Val::constant(7)]);
        let tile = Pair::any().shared(32);
        mine.store(tile, thread);
        sync_threads();
        let other = Pair::load(tile, thread ^ 1);
        let chosen = Pair::select(mine.0.gt(other.0), mine, other);
        let kept = warpfold_lang::vars(chosen);
        warpfold_lang::when(thread.lt(16), || kept.set(warpfold_lang::shfl_xor(kept.get(), 16)));
        let (float, [first, second]) = kept.get();
        floats.at(thread).set(float);
        words.at(thread).set(first + second);
    })
}

fn predicates() -> Kernel<(Global<f32>, Global<u8>)> {
    kernel("predicates", |floats: Global<f32>, bytes: Global<u8>| {
        let (x, thread) = (floats.at(thread_idx().x).get(), thread_idx().x);
        let flag = warpfold_lang::when_else(x.lt(0.0), || x.is_finite(), || x.gt(5.0));
        let tile = <Val<bool>>::any().shared(32);
        warpfold_lang::shfl_xor(flag, 1).store(tile, thread);
        sync_threads();
        let seen = var(flag);
        seen.set(seen.get() | <Val<bool>>::load(tile, thread ^ 2));
        bytes.at(thread).set(seen.get().cast::<u8>());
    })
}

fn atomic_words<T: Word + AtomicAdd + AtomicBits>(name: &str) -> Kernel<(Global<T>, Global<T>)> {
    fn all<T: Word + AtomicAdd + AtomicBits, S: Space>(place: Pointer<T, S>, value: Val<T>, output: Global<T>) {
        let atomic = place.atomic();
        let olds = [
            atomic.add(value),
            atomic.order(Order::Acquire).min(value),
            atomic.order(Order::Release).max(value),
            atomic.order(Order::AcqRel).scope(Scope::System).and(value),
            atomic.or(value),
            atomic.xor(value),
            atomic.exchange(value),
            atomic.compare_exchange(value, T::ONE.to_bits().into_word::<T>()),
        ];
        for (i, old) in olds.into_iter().enumerate() {
            output.at(i).set(old);
        }
        let reduction = place.reduction();
        reduction.add(value);
        reduction.min(value);
        reduction.max(value);
        reduction.order(Order::Release).scope(Scope::Gpu).and(value);
        reduction.or(value);
        reduction.xor(value);
    }
    kernel(format!("atomic_{name}"), |data: Global<T>, output: Global<T>| {
        let tile = shared::<T>(1);
        let value = data.at(1).get();
        all(data, value, output);
        all(tile, value, output.at(8));
    })
}

/// A word of any type from its bits.
trait IntoWord {
    fn into_word<T: Word>(self) -> Val<T>;
}

impl IntoWord for u64 {
    fn into_word<T: Word>(self) -> Val<T> {
        Val::constant(T::from_bits(self))
    }
}

fn atomic_sums() -> Kernel<(Global<f32>, Global<f64>, Global<f16>, Global<F16x2>)> {
    kernel("atomic_sums", |a: Global<f32>, b: Global<f64>, c: Global<f16>, d: Global<F16x2>| {
        fn both<T: AtomicAdd>(place: Global<T>) {
            let value = place.at(1).get();
            place.at(2).set(place.atomic().add(value));
            place.reduction().add(value);
        }
        both(a);
        both(b);
        both(c);
        both(d);
        let tile = shared::<f32>(1);
        tile.reduction().add(1.0);
        a.set(a.atomic().exchange(2.0) + tile.atomic().compare_exchange(0.0, 1.0));
    })
}

fn atomic_wrapping() -> Kernel<(Global<u32>, u32)> {
    kernel("atomic_wrapping", |counter: Global<u32>, limit: Val<u32>| {
        let up = counter.atomic().increment_wrapping(limit);
        counter.at(1).set(counter.atomic().decrement_wrapping(9) + up);
    })
}
