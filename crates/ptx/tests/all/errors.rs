//! A syntax error names line, column, the token, and what could stand there.

use warpfold_ptx::parse;

/// `text` follows three header lines; the first error in it reads `expected`.
#[track_caller]
fn check(text: &str, expected: &str) {
    let text = format!(".version 8.7\n.target sm_90a\n.address_size 64\n{text}");
    match parse(&text) {
        Ok(module) => panic!("no error in\n{text}\n{module}"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

/// The same inside a kernel, on line 4.
#[track_caller]
fn check_body(statements: &str, expected: &str) {
    check(&format!(".entry k() {{ {statements} }}"), expected);
}

#[test]
fn the_header_must_be_complete() {
    for (text, expected) in [
        ("", "1:1: expected `.version`, found end of file"),
        ("  // c\n  .target sm_80", "2:3: expected `.version`, found `.target`"),
        (".version 8", "1:10: expected a version such as `8.0`, found `8`"),
        (".version 8.0", "1:13: expected `.target`, found end of file"),
        (".version 8.0 .target 3", "1:22: expected a target such as `sm_90`, found `3`"),
        (".version 8.0 .target sm_80 .address_size 16", "1:42: expected `32` or `64`, found `16`"),
    ] {
        assert_eq!(parse(text).map_err(|e| e.to_string()), Err(expected.to_owned()));
    }
}

#[test]
fn an_unknown_mnemonic_is_named() {
    check_body("foo.bar %r1;", "4:14: expected an instruction, found `foo`");
    check_body("@%p foo;", "4:18: expected an instruction, found `foo`");
    check_body("@p { ret; }", "4:17: expected an instruction, found `{`");
}

#[test]
fn instructions_need_commas_operands_and_a_semicolon() {
    check_body("mov.u32 %r1 %r2;", "4:26: expected `,` or `;`, found `%r2`");
    check_body("mov.u32 %r1,, %r2;", "4:26: expected an operand, found `,`");
    check_body("mov.u32 %r1,;", "4:26: expected an operand, found `;`");
    check_body("mov.u32 %r1, 1", "4:29: expected `,` or `;`, found `}`");
    check_body("ld.u32 %r1, [%rd1-4];", "4:31: expected `+`, `,` or `]`, found `-`");
    check_body("ld.u32 %r1, [1.5];", "4:27: expected an address, found `1.5`");
    check_body("ld.u32 %r1, [];", "4:27: expected an address, found `]`");
    check_body("mov.b64 {}, %r1;", "4:23: expected an operand, found `}`");
    check_body("mov.b64 {a b}, %r1;", "4:25: expected `,` or `}`, found `b`");
    check_body("mov.u32 %r1, %r2.q;", "4:30: expected a component such as `.x`, found `.q`");
    check_body("mov.u32 %r1, %tid . x;", "4:32: expected a name after the dot, found `.`");
    check_body("@1 ret;", "4:15: expected a predicate, found `1`");
    check_body(";", "4:14: expected a statement or `}`, found `;`");
    check_body("ld.shared:: cta.u32 %r1, [sm];", "4:23: expected an operand, found `:`");
}

#[test]
fn malformed_numbers_are_named_whole() {
    for number in ["0x", "0xZZ", "09", "7u", "1e", "1.5f", "0f3F80", "0d123", "0b2", "12abc", "0f3F8000000"] {
        check_body(&format!("mov.b32 r, {number};"), &format!("4:25: expected a number, found `{number}`"));
    }
    check_body("mov.b32 r, 0x10000000000000000;", "4:25: expected an integer of 64 bits, found `0x10000000000000000`");
    check_body("mov.b32 r, 1/0;", "4:26: expected a divisor that is not zero, found `/`");
    check_body("mov.b32 r, 1+2.0;", "4:26: expected an operator between two integers or two 64-bit floats, found `+`");
    check_body("mov.b32 r, -0f3F800000;", "4:25: expected a number, found `-`");
    check_body("mov.b32 r, ~1.0;", "4:25: expected an operator for floats, found `~`");
    check_body("mov.b32 r, 1.0 << 2.0;", "4:29: expected an operator for floats, found `<<`");
    check_body("mov.b32 r, 1 ? 2 : 3.0;", "4:27: expected two integers or two floats after it, found `?`");
    check_body("mov.b32 r, (1;", "4:27: expected `)`, found `;`");
}

#[test]
fn declarations_are_checked_as_far_as_the_grammar_goes() {
    check(".bogus .u32 x;", "4:1: expected a directive, found `.bogus`");
    check("add.u32 a, b, c;", "4:1: expected a directive, found `add`");
    check(".visible .bogus x;", "4:10: expected `.entry`, `.func` or a state space, found `.bogus`");
    check(".global x;", "4:9: expected a type, found `x`");
    check(".global .u33 x;", "4:9: expected a type, found `.u33`");
    check(".global .u32 .align 4 x;", "4:14: expected a name, found `.align`");
    check(".global .u32 x[-1];", "4:16: expected an integer that is not negative, found `-`");
    check(".global .u32 x[2;", "4:17: expected `]`, found `;`");
    check(".global .u32 x = {1, 2;", "4:23: expected `,` or `}`, found `;`");
    check(".global .u32 x = {1, 2,};", "4:24: expected a number, found `}`");
    check(".global .u32 x<2>[3];", "4:18: expected `,` or `;`, found `[`");
    check(".global .u64 x = generic(a+4);", "4:27: expected `)`, found `+`");
    check(".entry k(.u32 x) { }", "4:10: expected `.param` or `.reg`, found `.u32`");
    check(".entry k() .maxntid { }", "4:21: expected an integer, found `{`");
    check(".entry k() .bogus { }", "4:12: expected a function directive, `;` or `{`, found `.bogus`");
    check(".entry k() .maxntid 1,2,3,4 { }", "4:26: expected a function directive, `;` or `{`, found `,`");
    check_body(".reg .b32 %r<x>;", "4:27: expected an integer, found `x`");
    check_body(".reg .b32 %r<99999999999>;", "4:27: expected an integer of 32 bits, found `99999999999`");
    check_body(".reg .b32 _;", "4:24: expected a register name, found `_`");
    check_body(".file 1 \"x\"", "4:14: expected a statement or `}`, found `.file`");
    check_body(".loc 1 2 }", "4:23: expected an integer, found `}`");
    check_body(".loc 1 2 3, inlined_at 1 2 3", "4:26: expected `function_name`, found `inlined_at`");
    check_body("p: .callprototype f ();", "4:32: expected `_`, found `f`");
    check_body("t: .branchtargets N<99999>;", "4:32: expected at most 65536 labels in ranges, found `N`");
}

#[test]
fn unfinished_text_is_named_where_it_starts_or_ends() {
    check(".entry k() { ret;", "4:18: expected a statement or `}`, found end of file");
    check(".entry k(", "4:10: expected `.param` or `.reg`, found end of file");
    check("/* never closed", "4:1: expected a comment that ends with */, found `/*`");
    check(".file 1 \"never closed\n", "4:9: expected a string that ends on its line, found `\"never closed`");
    check(".section .debug_info { .b8 1", "4:29: expected DWARF data or `}`, found end of file");
}

#[test]
fn what_is_no_ptx_at_all_is_named() {
    check("é", "4:1: expected PTX, found `é`");
    check("/* é */ #", "4:9: expected PTX, found `#`");
    check(". x", "4:1: expected a name after the dot, found `.`");
    check_body("mov.u32 r, %;", "4:25: expected an operand, found `%`");
    let long = "x".repeat(100);
    check(&long, &format!("4:1: expected a directive, found `{}…`", &long[..60]));
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let deep = 200_000;
    let body = |inner: String| format!(".version 8.0 .target sm_80 .entry k() {{ {inner}");
    for text in [
        body("{".repeat(deep)),
        body(format!("mov.b32 r, {}", "(".repeat(deep))),
        body(format!("mov.b32 r, {}1;", "-".repeat(deep))),
        body(format!("mov.b32 r, {}1;", "1?".repeat(deep))),
        body(format!("mov.b32 r, {}1;", "1?1:".repeat(deep))),
        body(format!("mov.b32 r, {}", "(.s64)".repeat(deep))),
        body(format!("mov.b32 {}", "{".repeat(deep))),
        body(format!("mov.b32 {}", "{[a,".repeat(deep))),
        format!(".version 8.0 .target sm_80 .global .u32 x = {}", "{".repeat(deep)),
    ] {
        let error = parse(&text).expect_err("too deep");
        assert_eq!(error.expected, "at most 128 levels of nesting", "{}", &text[..80]);
    }
}

#[test]
fn flat_text_may_be_as_long_as_it_likes() {
    let sum = format!(".version 8.0 .target sm_80 .entry k() {{ mov.b32 r, 1{}; }}", "+1".repeat(100_000));
    assert!(parse(&sum).is_ok());
    let labels = format!(".version 8.0 .target sm_80 .entry k() {{ {} }}", "l:".repeat(100_000));
    assert!(parse(&labels).is_ok());
}
