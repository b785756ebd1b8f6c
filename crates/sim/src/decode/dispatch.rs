//! Dispatch of mnemonics to the families that decode them.

use warpfold_ptx::{Instruction, Opcode};

use super::{Decoder, control, sync};
use crate::Error;
use crate::alu::{self, compare, convert, float, integer, logic, video};
use crate::asynchronous;
use crate::memory_ops::{access, atomic, distributed, moves};
use crate::tensor_ops;

/// Decodes one instruction.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    use Opcode as O;
    match inst.opcode {
        O::Add | O::Sub | O::Mul | O::Mad | O::Div | O::Abs | O::Neg | O::Min | O::Max => alu::shared_mnemonic(d, inst),
        O::Mul24
        | O::Mad24
        | O::Sad
        | O::Rem
        | O::Popc
        | O::Clz
        | O::Bfind
        | O::Fns
        | O::Brev
        | O::Bfe
        | O::Bfi
        | O::Szext
        | O::Bmsk
        | O::Dp4a
        | O::Dp2a
        | O::Addc
        | O::Subc
        | O::Madc => integer::decode(d, inst),
        O::Testp | O::Copysign | O::Fma | O::Rcp | O::Sqrt | O::Rsqrt | O::Sin | O::Cos | O::Lg2 | O::Ex2 | O::Tanh => {
            float::decode(d, inst)
        }
        O::Set | O::Setp | O::Selp | O::Slct => compare::decode(d, inst),
        O::And | O::Or | O::Xor | O::Not | O::Cnot | O::Lop3 | O::Shf | O::Shl | O::Shr | O::Prmt => {
            logic::decode(d, inst)
        }
        O::Cvt => convert::decode(d, inst),
        O::Mov | O::Cvta | O::Isspacep => moves::decode(d, inst),
        O::St | O::Red if inst.has("async") => asynchronous::thread_stores::decode(d, inst),
        O::Ld | O::Ldu | O::St | O::Prefetch | O::Prefetchu | O::Applypriority | O::Discard | O::Createpolicy => {
            access::decode(d, inst)
        }
        O::Atom | O::Red => atomic::decode(d, inst),
        O::Bra | O::Brx | O::Call | O::Ret | O::Exit | O::Trap => control::decode(d, inst),
        O::Bar
        | O::Barrier
        | O::Membar
        | O::Fence
        | O::Shfl
        | O::Vote
        | O::Match
        | O::Activemask
        | O::Redux
        | O::Elect
        | O::Nanosleep
        | O::Griddepcontrol
        | O::Setmaxnreg
        | O::Pmevent
        | O::Brkpt => sync::decode(d, inst),
        O::Vadd
        | O::Vsub
        | O::Vabsdiff
        | O::Vmin
        | O::Vmax
        | O::Vshl
        | O::Vshr
        | O::Vmad
        | O::Vset
        | O::Vadd2
        | O::Vsub2
        | O::Vavrg2
        | O::Vabsdiff2
        | O::Vmin2
        | O::Vmax2
        | O::Vset2
        | O::Vadd4
        | O::Vsub4
        | O::Vavrg4
        | O::Vabsdiff4
        | O::Vmin4
        | O::Vmax4
        | O::Vset4 => video::decode(d, inst),
        O::Cp => asynchronous::decode(d, inst),
        O::Mbarrier => asynchronous::mbarrier::decode(d, inst),
        O::Mapa | O::Getctarank => distributed::decode(d, inst),
        O::Tensormap => asynchronous::tensormap::decode(d, inst),
        O::Multimem => Err(d.unsupported(inst, "multimem addresses need several devices")),
        O::Clusterlaunchcontrol => Err(d.unsupported(inst, "clusterlaunchcontrol exists from sm_100 on")),
        O::Tex | O::Tld4 | O::Txq | O::Istypep | O::Suld | O::Sust | O::Sured | O::Suq => {
            Err(d.unsupported(inst, "textures and surfaces are not executed"))
        }
        O::Wmma | O::Mma | O::Ldmatrix | O::Stmatrix | O::Movmatrix | O::Wgmma => tensor_ops::decode(d, inst),
        O::Tcgen05 => Err(d.unsupported(inst, "tcgen05 exists from sm_100 on")),
        O::Stacksave | O::Stackrestore | O::Alloca => Err(d.unsupported(inst, "the stack is not managed by hand here")),
    }
}
