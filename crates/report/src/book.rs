//! The chapters of the book, so that their programs are compiled and run with the tests.

/// Each chapter by its file.
macro_rules! chapters {
    ($($name:ident $file:literal;)+) => {
        $(
            #[doc = include_str!(concat!("../../../docs/book/src/", $file))]
            struct $name;
        )+
    };
}

chapters! {
    Start "start.md";
    Setup "setup.md";
    Machine "machine.md";
    Memory "memory.md";
    Roofline "roofline.md";
    Profile "profile.md";
    Glossary "glossary.md";
    IfYouKnowCuda "if-you-know-cuda.md";
    YourCrate "your-crate.md";
    Pictures "pictures.md";
    OneThread "one-thread.md";
    Reduction "reduction.md";
    Rows "rows.md";
    Elementwise "elementwise.md";
    Histogram "histogram.md";
    Gemv "gemv.md";
    Moving "moving.md";
    Devices "devices.md";
    Gemm "gemm.md";
    Convolution "convolution.md";
    Attention "attention.md";
    Serving "serving.md";
    EngineWalkthrough "engine-walkthrough.md";
    Ladders "ladders.md";
    FindingARace "finding-a-race.md";
    Triton "triton.md";
    Found "found.md";
}
