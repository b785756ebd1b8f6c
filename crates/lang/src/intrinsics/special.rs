//! Special registers (PTX ISA, "Special Registers").

use warpfold_ptx::{self as ptx, Name, Opcode};

use crate::recorder::{Computed, Raw, Recorder};
use crate::types::Type;

/// A special register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Register {
    Tid,
    Ntid,
    Ctaid,
    Nctaid,
    Laneid,
    LanemaskLt,
    LanemaskEq,
    LanemaskGt,
    Clock64,
    Globaltimer,
    Smid,
    ClusterCtarank,
    ClusterNctarank,
    ClusterCtaid,
    ClusterNctaid,
    Clusterid,
    Nclusterid,
}

impl Register {
    const fn name(self) -> &'static str {
        match self {
            Self::Tid => "%tid",
            Self::Ntid => "%ntid",
            Self::Ctaid => "%ctaid",
            Self::Nctaid => "%nctaid",
            Self::Laneid => "%laneid",
            Self::LanemaskLt => "%lanemask_lt",
            Self::LanemaskEq => "%lanemask_eq",
            Self::LanemaskGt => "%lanemask_gt",
            Self::Clock64 => "%clock64",
            Self::Globaltimer => "%globaltimer",
            Self::Smid => "%smid",
            Self::ClusterCtarank => "%cluster_ctarank",
            Self::ClusterNctarank => "%cluster_nctarank",
            Self::ClusterCtaid => "%cluster_ctaid",
            Self::ClusterNctaid => "%cluster_nctaid",
            Self::Clusterid => "%clusterid",
            Self::Nclusterid => "%nclusterid",
        }
    }

    const fn ty(self) -> Type {
        match self {
            Self::Clock64 | Self::Globaltimer => Type::U64,
            Self::Tid
            | Self::Ntid
            | Self::Ctaid
            | Self::Nctaid
            | Self::Laneid
            | Self::LanemaskLt
            | Self::LanemaskEq
            | Self::LanemaskGt
            | Self::Smid
            | Self::ClusterCtarank
            | Self::ClusterNctarank
            | Self::ClusterCtaid
            | Self::ClusterNctaid
            | Self::Clusterid
            | Self::Nclusterid => Type::U32,
        }
    }
}

/// A special register that keeps its value while the thread runs: read once, at the start.
pub(crate) fn constant(r: &mut Recorder, register: Register, component: Option<char>) -> Raw {
    r.computed(Computed::Special(register, component), |r| read(r, register, component))
}

/// A special register that changes: read here.
pub(crate) fn read(r: &mut Recorder, register: Register, component: Option<char>) -> Raw {
    let source = ptx::Operand::Name { name: Name::new_static(register.name()), component };
    let ty = register.ty();
    r.define(ty.register(), Opcode::Mov, &[ty.memory().name()], vec![source])
}
