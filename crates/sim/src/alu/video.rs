//! Being written.

use warpfold_ptx::Instruction;

use crate::Error;
use crate::decode::Decoder;

/// Decodes the family's mnemonics.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    Err(d.unsupported(inst, "not executed"))
}
