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
    IfYouKnowCuda "if-you-know-cuda.md";
    FindingARace "finding-a-race.md";
    Triton "triton.md";
    Pictures "pictures.md";
    Ladders "ladders.md";
    YourCrate "your-crate.md";
    Found "found.md";
}
