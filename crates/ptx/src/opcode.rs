//! Every mnemonic of the PTX ISA up to version 9, one row each.

macro_rules! opcodes {
    ($($variant:ident $text:literal),* $(,)?) => {
        /// The mnemonic before the first dot.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each variant is the PTX mnemonic of the same name")]
        pub enum Opcode { $($variant),* }

        impl Opcode {
            /// Every mnemonic.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The opcode of a mnemonic, if it is one.
            #[must_use]
            pub fn from_mnemonic(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }

            /// The mnemonic.
            #[must_use]
            pub const fn mnemonic(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

opcodes! {
    // Integer arithmetic.
    Add "add", Sub "sub", Mul "mul", Mad "mad", Mul24 "mul24", Mad24 "mad24", Sad "sad", Div "div", Rem "rem",
    Abs "abs", Neg "neg", Min "min", Max "max", Popc "popc", Clz "clz", Bfind "bfind", Fns "fns", Brev "brev",
    Bfe "bfe", Bfi "bfi", Szext "szext", Bmsk "bmsk", Dp4a "dp4a", Dp2a "dp2a",
    Addc "addc", Subc "subc", Madc "madc",
    // Floating point.
    Testp "testp", Copysign "copysign", Fma "fma", Rcp "rcp", Sqrt "sqrt", Rsqrt "rsqrt", Sin "sin", Cos "cos",
    Lg2 "lg2", Ex2 "ex2", Tanh "tanh",
    // Comparison and selection, logic and shift.
    Set "set", Setp "setp", Selp "selp", Slct "slct",
    And "and", Or "or", Xor "xor", Not "not", Cnot "cnot", Lop3 "lop3", Shf "shf", Shl "shl", Shr "shr",
    // Data movement and conversion.
    Mov "mov", Shfl "shfl", Prmt "prmt", Ld "ld", Ldu "ldu", St "st", Multimem "multimem", Prefetch "prefetch",
    Prefetchu "prefetchu", Applypriority "applypriority", Discard "discard", Createpolicy "createpolicy",
    Isspacep "isspacep", Cvta "cvta", Cvt "cvt", Mapa "mapa", Getctarank "getctarank", Cp "cp",
    Tensormap "tensormap",
    // Textures and surfaces.
    Tex "tex", Tld4 "tld4", Txq "txq", Istypep "istypep", Suld "suld", Sust "sust", Sured "sured", Suq "suq",
    // Control flow.
    Bra "bra", Brx "brx", Call "call", Ret "ret", Exit "exit",
    // Synchronisation and communication.
    Bar "bar", Barrier "barrier", Membar "membar", Fence "fence", Atom "atom", Red "red", Vote "vote",
    Match "match", Activemask "activemask", Redux "redux", Griddepcontrol "griddepcontrol", Elect "elect",
    Mbarrier "mbarrier", Clusterlaunchcontrol "clusterlaunchcontrol",
    // Matrices.
    Wmma "wmma", Mma "mma", Ldmatrix "ldmatrix", Stmatrix "stmatrix", Movmatrix "movmatrix", Wgmma "wgmma",
    Setmaxnreg "setmaxnreg", Tcgen05 "tcgen05",
    // Stack.
    Stacksave "stacksave", Stackrestore "stackrestore", Alloca "alloca",
    // Video.
    Vadd "vadd", Vsub "vsub", Vabsdiff "vabsdiff", Vmin "vmin", Vmax "vmax", Vshl "vshl", Vshr "vshr",
    Vmad "vmad", Vset "vset", Vadd2 "vadd2", Vsub2 "vsub2", Vavrg2 "vavrg2", Vabsdiff2 "vabsdiff2",
    Vmin2 "vmin2", Vmax2 "vmax2", Vset2 "vset2", Vadd4 "vadd4", Vsub4 "vsub4", Vavrg4 "vavrg4",
    Vabsdiff4 "vabsdiff4", Vmin4 "vmin4", Vmax4 "vmax4", Vset4 "vset4",
    // Miscellaneous.
    Brkpt "brkpt", Nanosleep "nanosleep", Pmevent "pmevent", Trap "trap",
}
