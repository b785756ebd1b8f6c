//! Real PTX text parses.

#[test]
fn triton_vector_add_parses() {
    let module = warpfold_ptx::parse(include_str!("files/triton_add.ptx")).expect("valid PTX");
    assert_eq!(module.items.len(), 5);
}
