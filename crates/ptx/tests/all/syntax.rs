//! What each construct becomes when it is parsed and printed.

use warpfold_ptx::{Function, Immediate, Instruction, Item, Module, Operand, ScalarType, StateSpace, Statement, parse};

const HEADER: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";

#[track_caller]
fn module(items: &str) -> Module {
    parse(&format!("{HEADER}{items}")).unwrap_or_else(|error| panic!("{items}\n{error}"))
}

/// The only function of a module whose body is `statements`.
#[track_caller]
fn function(statements: &str) -> Function {
    let module = module(&format!(".entry f() {{\n{statements}\n}}"));
    module.functions().next().expect("one function").clone()
}

#[track_caller]
fn instruction(text: &str) -> Instruction {
    function(text).instructions().next().expect("one instruction").clone()
}

#[track_caller]
fn operands(text: &str) -> Vec<Operand> {
    instruction(text).operands
}

/// `statement` prints as `expected`, and that parses to the same tree.
#[track_caller]
fn check_statement(statement: &str, expected: &str) {
    let body = function(statement).body.expect("a body");
    let printed: Vec<_> = body.iter().map(ToString::to_string).collect();
    assert_eq!(printed.join("\n"), expected);
    assert_eq!(function(expected).body, Some(body));
}

/// `items` print as `expected`, and that parses to the same tree.
#[track_caller]
fn check_items(items: &str, expected: &str) {
    let parsed = module(items);
    let printed: Vec<_> = parsed.items.iter().map(ToString::to_string).collect();
    assert_eq!(printed.join("\n"), expected);
    assert_eq!(module(expected), parsed);
}

/// An operand that is a constant expression has this value.
#[track_caller]
fn check_constant(text: &str, expected: Immediate) {
    assert_eq!(operands(&format!("mov.b64 d, {text};"))[1], Operand::Immediate(expected), "{text}");
}

#[test]
fn an_instruction_prints_on_one_line() {
    for (text, expected) in [
        ("ret ;", "ret;"),
        ("@ %p1   bra\n\t$L__BB0_2;", "@%p1 bra $L__BB0_2;"),
        ("@!%p1 bra.uni a$b_1;", "@!%p1 bra.uni a$b_1;"),
        ("ld .global .v2.u32 {%r1,%r2},[%rd1+-16];", "ld.global.v2.u32 {%r1, %r2}, [%rd1+-16];"),
        (
            "ld.global.L1::no_allocate.L2::128B.u32 %r1, [ %rd1 + 0 ];",
            "ld.global.L1::no_allocate.L2::128B.u32 %r1, [%rd1];",
        ),
        ("st.shared.u32 [tile+0x10], 1.5;", "st.shared.u32 [tile+16], 0d3FF8000000000000;"),
        ("setp.lt.and.s32 %p|%q, %r1, -3, !%r;", "setp.lt.and.s32 %p|%q, %r1, -3, !%r;"),
        ("shfl.sync.down.b32\t%r20|%p5, %r19, 16, 31, -1;", "shfl.sync.down.b32 %r20|%p5, %r19, 16, 31, -1;"),
        ("elect.sync _|%p1, 0xFFFFFFFF;", "elect.sync _|%p1, 4294967295;"),
        ("mov.b64 {_, %r2}, %rd1;", "mov.b64 {_, %r2}, %rd1;"),
        ("mov.f32 %f1, v.w;", "mov.f32 %f1, v.w;"),
        ("vadd.s32.s32.s32 %r1, -%r2.b0, %r3.h1;", "vadd.s32.s32.s32 %r1, -%r2.b0, %r3.h1;"),
        ("vadd4.u32.u32.u32 %r1, %r2.b3210, %r3.b7654, %r4;", "vadd4.u32.u32.u32 %r1, %r2.b3210, %r3.b7654, %r4;"),
        ("mov.u64 %rd1, table + 8;", "mov.u64 %rd1, table+8;"),
        ("mov.u64 %rd1, table+-8;", "mov.u64 %rd1, table+-8;"),
        ("call.uni (retval0),\nvprintf,\n(\nparam0,\nparam1\n);", "call.uni (retval0), vprintf, (param0, param1);"),
        ("call (), foo, ();", "call (), foo, ();"),
        ("call %rd1, (3, %r1), proto;", "call %rd1, (3, %r1), proto;"),
        ("tex.2d.v4.f32.f32 {a,b,c,d}|p, [t, s, {x, y}];", "tex.2d.v4.f32.f32 {a, b, c, d}|p, [t, s, {x, y}];"),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s+1024],[m,{x,y}],[b];",
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s+1024], [m, {x, y}], [b];",
        ),
    ] {
        assert_eq!(instruction(text).to_string(), expected);
        assert_eq!(instruction(expected), instruction(text));
    }
}

#[test]
fn statements_print_as_compilers_write_them() {
    check_statement("$L_1: $L_2: ret;", "$L_1:\n$L_2:\nret;");
    check_statement(".reg .b32 %r<5>, x;", ".reg .b32 %r<5>, x;");
    check_statement(".reg .v4.f32 acc;", ".reg .v4 .f32 acc;");
    check_statement(".shared .align 16 .b8 a[2][3], b;", ".shared .align 16 .b8 a[2][3];\n.shared .align 16 .b8 b;");
    check_statement(".param .b32 retval0;", ".param .b32 retval0;");
    check_statement("{ { ret; } }", "{\n    {\n        ret;\n    }\n}");
    check_statement(".pragma \"nounroll\" , \"x\" ;", ".pragma \"nounroll\", \"x\";");
    check_statement(".loc\t1 20 0 // a.py:20:0", ".loc 1 20 0");
    check_statement(
        ".loc 1 9 3,function_name $L__info+16 , inlined_at 1 21 3",
        ".loc 1 9 3, function_name $L__info+16, inlined_at 1 21 3",
    );
    check_statement("t : .branchtargets a,b;", "t: .branchtargets a, b;");
    check_statement("t: .branchtargets N<3>, m;", "t: .branchtargets N0, N1, N2, m;");
    check_statement("t: .calltargets f, g;", "t: .calltargets f, g;");
    check_statement("p: .callprototype _;", "p: .callprototype _ ();");
    check_statement(
        "p : .callprototype (.param.b32 _)_(.param .b64 _,.param .align 4 .b8 _[12]) .noreturn;",
        "p: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 4 .b8 _[12]) .noreturn;",
    );
}

#[test]
fn module_items_print_as_compilers_write_them() {
    check_items(".global .u32 a=1,b[]={1,2};", ".global .u32 a = 1;\n.global .u32 b[] = {1, 2};");
    check_items(".align 8 .global .u32 a;", ".global .align 8 .u32 a;");
    check_items(".global .align 4 .attribute(.managed) .u32 a;", ".global .attribute(.managed) .align 4 .u32 a;");
    check_items(".extern .shared .align 16 .b8 s[];", ".extern .shared .align 16 .b8 s[];");
    check_items(".global .u64 p = generic(a)+8;", ".global .u64 p = generic(a)+8;");
    check_items(
        ".global .u8 p[] = {0xff00(generic(a)+4), 255(b), 0xff(1+2)};",
        ".global .u8 p[] = {0xFF00(generic(a)+4), 0xFF(b), 0xFF(3)};",
    );
    check_items(
        ".global .f32 m[][2] = {{.5, -1.0}, {}};",
        ".global .f32 m[][2] = {{0d3FE0000000000000, 0dBFF0000000000000}, {}};",
    );
    check_items(".global .u32 r<4>;", ".global .u32 r<4>;");
    check_items(".alias a , b ;", ".alias a, b;");
    check_items(".file  1 \"a b.cu\" , 1, 2", ".file  1 \"a b.cu\" , 1, 2");
    check_items(
        ".section .debug_str { a: .b8 1, -1 // c }\n .b32 a-b, a+4 }",
        ".section .debug_str { a: .b8 1, -1 // c }\n .b32 a-b, a+4 }",
    );
    check_items("@@DWARF .byte 0x2b, 1  \n.pragma \"x\" ;", "@@DWARF .byte 0x2b, 1\n.pragma \"x\" ;");
    check_items(".func foo;", ".func foo();");
    check_items(
        ".extern .func (.param .b32 r) f (.param .b64 a);",
        ".extern .func (.param .b32 r) f(\n    .param .b64 a\n);",
    );
    check_items(
        ".func .attribute(.unified(1, 2)) f() .noreturn .abi_preserve 8;",
        ".func .attribute(.unified(1, 2)) f()\n.noreturn\n.abi_preserve 8;",
    );
    check_items(
        ".visible .entry k(.param .u64 .ptr .global .align 8 x, .param .align 4 .b8 y[4]) .maxntid 16,16 .pragma \"n\"; .maxnreg 32 { .reg .pred p; l: @p bra l; { ret; } }",
        ".visible .entry k(\n    .param .u64 .ptr .global .align 8 x,\n    .param .align 4 .b8 y[4]\n)\n.maxntid 16, 16\n.pragma \"n\";\n.maxnreg 32\n{\n    .reg .pred p;\n\nl:\n    @p bra l;\n    {\n        ret;\n    }\n}",
    );
}

#[test]
fn integer_literals_of_every_base_have_their_value() {
    for (text, value) in [
        ("0", 0),
        ("017", 15),
        ("0x1F", 31),
        ("0Xff", 255),
        ("0b101", 5),
        ("0B11", 3),
        ("42U", 42),
        ("-42", -42),
        ("+7", 7),
        ("WARP_SZ", 32),
        ("18446744073709551615", i128::from(u64::MAX)),
        ("-9223372036854775808", i128::from(i64::MIN)),
        ("9223372036854775808", 1 << 63),
    ] {
        check_constant(text, Immediate::Int(value));
    }
}

#[test]
fn integer_expressions_follow_the_rules_of_the_specification() {
    for (text, value) in [
        ("(1+2)*4", 12),
        ("1+2*4", 9),
        ("10-3-2", 5),
        ("-7/2", -3),
        ("-1 % 10", i128::from(u64::MAX % 10)),
        ("1<<4|3", 19),
        ("1<<64", 0),
        ("-1>>1", -1),
        ("-1>>70", -1),
        ("-1U>>1", i128::from(u64::MAX >> 1)),
        ("~0", i128::from(u64::MAX)),
        ("!5", 0),
        ("!0", 1),
        ("-1 < 1", 1),
        ("-1 < 1U", 0),
        ("3 >= 3", 1),
        ("3 > 3", 0),
        ("1 == 1 && 0 != 1", 1),
        ("0 || 0", 0),
        ("6 ^ 3 & 1", 7),
        ("1 ? 2 : 0 ? 3 : 4", 2),
        ("0 ? -2 : 1U", 1),
        ("(.u64) -1", i128::from(u64::MAX)),
        ("(.s64) 18446744073709551615", -1),
        ("9223372036854775807 + 1", i128::from(i64::MIN)),
        ("WARP_SZ * 2", 64),
        ("- - 3", 3),
    ] {
        check_constant(text, Immediate::Int(value));
    }
}

#[test]
fn float_literals_keep_their_bits() {
    for (text, value) in [
        ("0f3F800000", Immediate::F32(0x3F80_0000)),
        ("0FfFc00001", Immediate::F32(0xFFC0_0001)),
        ("0d7FF0000000000001", Immediate::F64(0x7FF0_0000_0000_0001)),
        ("1.5", Immediate::F64(1.5_f64.to_bits())),
        ("-0.0", Immediate::F64((-0.0_f64).to_bits())),
        (".25e1", Immediate::F64(2.5_f64.to_bits())),
        ("1e-3", Immediate::F64(1e-3_f64.to_bits())),
        ("2.", Immediate::F64(2.0_f64.to_bits())),
        ("1.5 + 2.0 * 3.0 / 4.0 - 1.0", Immediate::F64(2.0_f64.to_bits())),
        ("1.0 < 2.0", Immediate::Int(1)),
        ("1 ? 2.0 : 3.0", Immediate::F64(2.0_f64.to_bits())),
    ] {
        check_constant(text, value);
    }
}

#[test]
fn spans_point_at_guard_label_and_name_in_characters() {
    let module = module("/* é */ .entry f() { /* ü\n */ @%p\n bra x; x: }");
    let function = module.function("f").expect("f");
    assert_eq!((function.span.line, function.span.column), (4, 16));
    let instruction = function.instructions().next().expect("bra");
    assert_eq!((instruction.span.line, instruction.span.column), (5, 5));
    let Some(Statement::Label { span, .. }) = function.statements().last() else { panic!("a label ends the body") };
    assert_eq!((span.line, span.column), (6, 9));
}

#[test]
fn every_scalar_type_and_state_space_declares_a_variable() {
    for &ty in ScalarType::ALL {
        let module = module(&format!(".global .{} x;", ty.name()));
        assert_eq!(module.variables().next().map(|v| v.ty), Some(ty));
    }
    for &space in StateSpace::ALL {
        let module = module(&format!(".{} .b32 x;", space.name()));
        assert_eq!(module.variables().next().map(|v| v.space), Some(space));
    }
}

#[test]
fn the_address_size_defaults_to_32_bits() {
    assert_eq!(parse(".version 1.4\n.target sm_80, debug").map(|m| (m.address_size, m.target.len())), Ok((32, 2)));
}

#[test]
fn functions_and_instructions_are_found_in_nested_scopes() {
    let module = module(
        ".extern .func g(); .func g() { { { trap; } exit; } ret; } .entry k(.param .b32 a) .maxntid 32 { ret; } .global .u32 v;",
    );
    let names: Vec<_> = module.functions().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["g", "g", "k"]);
    assert_eq!(module.kernels().count(), 1);
    let definition = module.function("g").expect("g");
    let mnemonics: Vec<_> = definition.instructions().map(|i| i.opcode.mnemonic()).collect();
    assert_eq!(mnemonics, ["trap", "exit", "ret"]);
    assert_eq!(definition.statements().count(), 5);
    assert_eq!(module.function("k").and_then(|k| k.directive("maxntid")).map(|d| d.values.clone()), Some(vec![32]));
    assert!(module.function("h").is_none());
    assert!(matches!(module.items.last(), Some(Item::Variable(v)) if v.name == "v"));
}
