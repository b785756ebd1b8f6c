//! Structures of parameters: what the kernel declares is what the host passes.

use warpfold_lang::{
    Arch, Arguments, Element, Global, Kernel, NamedArgument, NamedParam, Numbers, Param, Params, Side, Sink, Slot,
    Strided, Target, kernel, params, thread_idx,
};
use warpfold_ptx::ScalarType;

params! {
    struct ScaleArgs {
        from: Strided<2>,
        by: u8,
        /// Elements beside it.
        mask: Option<Strided<1>>,
        to: Global<f32>,
        offsets: [u64; 2],
        bias: Option<Global<f32>>,
    }
}

#[derive(Debug, Clone, Copy)]
struct Host;

#[derive(Debug)]
struct Address(u64);

#[derive(Debug)]
struct Matrix<const RANK: usize>(Address, [i64; RANK], [u32; RANK]);

impl Side for Host {
    type Pointer<T: Element> = Address;
    type Pointers<T: Element, const N: usize> = [Option<Address>; N];
    type Tensor<const RANK: usize> = Matrix<RANK>;
    type Map<T: Element> = [u8; 128];
    type Scalar<T: Element + Param> = T;
    type Lazy<T: Element + Param> = T;
    type Array<T: Element + Param, const N: usize> = [T; N];
    type Optional<P: NamedParam> = Option<P::On<Self>>;
}

/// Arguments, each at the next multiple of its alignment.
#[derive(Default)]
struct Packet(Vec<(usize, Vec<u8>)>);

impl Sink for Packet {
    type Error = String;

    fn push(&mut self, little_endian: &[u8], align: usize) -> Result<(), String> {
        let end = self.0.last().map_or(0, |(offset, bytes)| offset + bytes.len());
        self.0.push((end.next_multiple_of(align), little_endian.to_vec()));
        Ok(())
    }
}

impl<T: Element> NamedArgument<Global<T>, Packet> for Address {
    fn pass(self, packet: &mut Packet, _: &mut Numbers) -> Result<(), String> {
        packet.push(&self.0.to_le_bytes(), 8)
    }
}

impl<const RANK: usize> NamedArgument<Strided<RANK>, Packet> for Matrix<RANK> {
    fn pass(self, packet: &mut Packet, numbers: &mut Numbers) -> Result<(), String> {
        let Self(address, strides, sizes) = self;
        packet.push(&address.0.to_le_bytes(), 8)?;
        strides.iter().for_each(|stride| numbers.push(&stride.to_le_bytes(), 8));
        sizes.iter().for_each(|size| numbers.push(&size.to_le_bytes(), 4));
        Ok(())
    }
}

fn passed<Ps: Params>(_: &Kernel<Ps>, args: impl Arguments<Ps, Packet>) -> Packet {
    let mut packet = Packet::default();
    args.pass_all(&mut packet).expect("a packet takes everything");
    packet
}

#[test]
fn a_structure_is_passed_as_its_kernel_declares_it() {
    let scale = kernel("scale", |args: ScaleArgs| {
        let index @ [row, _] = args.from.unravel::<2>(thread_idx().x);
        let x = args.from.at(4, index).reinterpret::<f32>().get() * args.by.cast::<f32>();
        args.to.at(row.cast::<u64>() + args.offsets.at(1)).set(x + args.bias.at(row).get());
    });
    let args = ScaleArgs::<Host> {
        from: Matrix(Address(0x100), [7, -1], [2, 3]),
        by: 9,
        mask: None,
        to: Address(0x200),
        offsets: [1, 2],
        bias: None,
    };
    let Packet(found) = passed(&scale, args);
    let pointer = |offset| Slot { ty: ScalarType::U64, offset, bytes: 8 };
    let numbers = Slot { ty: ScalarType::B8, offset: 32, bytes: 64 };
    assert_eq!(scale.layout().params, [pointer(0), pointer(8), pointer(16), pointer(24), numbers]);
    let slots = |slot: &Slot| (slot.offset as usize, slot.bytes as usize);
    let offsets: Vec<_> = found.iter().map(|(offset, bytes)| (*offset, bytes.len())).collect();
    assert_eq!(offsets, scale.layout().params.iter().map(slots).collect::<Vec<_>>());
    let pointers = found[..4].iter().map(|(_, bytes)| u64::from_le_bytes(bytes[..].try_into().expect("eight bytes")));
    assert_eq!(pointers.collect::<Vec<_>>(), [0x100, 0, 0x200, 0]);
    // Two strides, two sizes, a byte at 24; nothing of the mask at 32; two words at 48.
    let bytes = &found[4].1;
    assert_eq!((bytes[0], bytes[8], bytes[16], bytes[20], bytes[24]), (7, 0xff, 2, 3, 9));
    assert!(bytes[25..48].iter().all(|byte| *byte == 0));
    assert_eq!((bytes[48], bytes[56]), (1, 2));
    let text = scale.ptx(&Target::new(Arch::SM_80, (8, 0))).expect("it is valid");
    for load in ["param_4+20]", "param_4+24]", "param_4+56]"] {
        assert!(text.contains(load), "{load}: {text}");
    }
}
