//! Bad input is one clear line and its exit code.

use crate::support::{folder, npy, ptx, refused};

/// A launch of the kernel `copy`, with these arguments behind it.
#[track_caller]
fn copy_refused(more: &[&str], code: i32, part: &str) {
    let file = ptx("copy");
    let mut args = vec!["sim", &file, "--entry", "copy"];
    if !more.contains(&"--grid") {
        args.extend(["--grid", "1"]);
    }
    if !more.contains(&"--block") {
        args.extend(["--block", "32"]);
    }
    args.extend(more);
    refused(&args, code, part);
}

#[test]
fn the_command_line_itself() {
    refused(&[], 2, "a subcommand is needed");
    refused(&["fly"], 2, "unrecognized subcommand 'fly'");
    refused(&["sim"], 2, "required arguments were not provided: --grid <X[,Y[,Z]]>");
    refused(&["devices", "--colour"], 2, "unexpected argument '--colour'");
    refused(&["lader"], 2, "unrecognized subcommand 'lader'; did you mean 'ladder'?");
    refused(&["sim", "--griid", "1"], 2, "unexpected argument '--griid' found; did you mean '--grid'?");
    refused(
        &["run", "sofmax"],
        2,
        "unknown operation 'sofmax'; `warpfold run --list` lists them; did you mean 'softmax'?",
    );
    for command in ["generate", "serve"] {
        refused(&[command, ""], 2, "the name of the model is empty; leave it out, or write 'warpfold-tales'");
    }
    copy_refused(&["--check", "some"], 2, "invalid value 'some' for '--check <CHECK>' [possible values: none, all]");
    copy_refused(&["--report", "xml"], 2, "invalid value 'xml' for '--report <REPORT>'");
    copy_refused(&["--arch", "sm_70"], 2, "unknown architecture 'sm_70'");
    copy_refused(&["--shared", "-1"], 2, "'-1'");
}

#[test]
fn files_that_are_not_there_or_are_not_ptx() {
    let launch = ["--entry", "k", "--grid", "1", "--block", "1"];
    let with = |file| [&["sim", file], &launch[..]].concat();
    refused(&with("absent.ptx"), 2, "cannot read absent.ptx: ");
    let folder = folder("files_that_are_not_there_or_are_not_ptx");
    let path = folder.join("bad.ptx");
    let path = path.to_str().expect("UTF-8");
    std::fs::write(path, b"\xff\xfe\x00").expect("written");
    refused(&with(path), 2, "bad.ptx is not text");
    for text in ["", "int main() {}", ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { add.u32 ; \n"] {
        std::fs::write(path, text).expect("written");
        refused(&with(path), 3, "bad.ptx: PTX syntax error at ");
    }
    let newer = ".version 9.0\n.target sm_120\n.address_size 64\n.entry k() { ret; }\n";
    std::fs::write(path, newer).expect("written");
    refused(&with(path), 3, "the device is sm_90a");
}

#[test]
fn variables_larger_than_any_device() {
    let path = folder("variables_larger_than_any_device").join("large.ptx");
    let path = path.to_str().expect("UTF-8");
    let launch = ["sim", path, "--entry", "k", "--grid", "1", "--block", "1"];
    let with = |kernel: &str| {
        std::fs::write(path, format!(".version 8.0\n.target sm_80\n.address_size 64\n{kernel}")).expect("written");
    };
    with(".entry k() { .shared .b8 x[4294967290]; .reg .b32 %r; mov.u32 %r, x; ret; }");
    refused(&launch, 3, "line 4: invalid PTX: `x`: it is too large for shared memory");
    with(".entry k() { .local .b8 x[4294967290]; .local .b8 y[8]; ret; }");
    refused(&launch, 3, "line 4: invalid PTX: `x`: it is too large for local memory");
    with(".entry k(.param .b8 p[4294967295], .param .u64 q) { ret; }");
    refused(&launch, 3, "line 4: invalid PTX: `p`: it is too large");
    with(".entry k() { .reg .b64 %rd<0xffffffff>; ret; }");
    refused(&launch, 3, "line 4: invalid PTX: `k`: it declares 4294967295 names");
    with(".global .b8 x[9223372036854775807]; .entry k() { ret; }");
    refused(&launch, 4, "out of device memory: 9223372036854775807 bytes asked for");
}

#[test]
fn kernels_and_launches_that_are_not_possible() {
    let file = ptx("copy");
    let kernel = |name| ["sim", &file, "--entry", name, "--grid", "1", "--block", "1"];
    refused(&kernel("paste"), 2, "no kernel named 'paste'; the module has: copy; nothing");
    copy_refused(&["--grid", "0"], 2, "invalid value '0' for '--grid <X[,Y[,Z]]>': a size must not be zero");
    copy_refused(&["--block", "32,0"], 2, "a size must not be zero");
    copy_refused(&["--grid", "1,2,3,4"], 2, "4 dimensions, at most 3 are possible");
    copy_refused(&["--grid", "1,"], 2, "'' is not a whole number");
    copy_refused(&["--grid", "99999999999"], 2, "'99999999999' is not a whole number of at most 4294967295");
    let nothing = |more: &[&'static str]| [&["sim", &file, "--entry", "nothing"], more].concat();
    refused(&nothing(&["--grid", "1", "--block", "1025"]), 2, "1025 threads; the limits are 1024 threads");
    refused(&nothing(&["--grid", "1,65536", "--block", "1"]), 2, "over the limit of [2147483647, 65535, 65535]");
    refused(&nothing(&["--grid", "1", "--block", "1", "--shared", "300000"]), 2, "over the limit of 232448");
}

#[test]
fn clusters_that_cannot_be_launched_are_refused() {
    let file = ptx("copy");
    let cluster = |n| ["sim", &file, "--entry", "nothing", "--grid", "4", "--block", "1", "--cluster", n];
    refused(&cluster("3"), 2, "grid [4, 1, 1] is not a multiple of the cluster [3, 1, 1] in every dimension");
    refused(&cluster("0"), 2, "a size must not be zero");
    refused(&cluster("65536,65536"), 2, "a cluster has at most 16 blocks");
}

#[test]
fn a_wrong_number_of_arguments_lists_the_parameters() {
    let list = "kernel copy has 3 parameters (from: 8 bytes, to: 8 bytes, len: 4 bytes), but ";
    copy_refused(&[], 2, &format!("{list}0 --arg are given"));
    copy_refused(&["--arg", "u64=0"], 2, &format!("{list}1 --arg is given"));
    let file = ptx("copy");
    let nothing = ["sim", &file, "--entry", "nothing", "--grid", "1", "--block", "1", "--arg", "u32=1"];
    refused(&nothing, 2, "kernel nothing has 0 parameters, but 1 --arg is given");
}

#[test]
fn an_argument_of_another_size_or_type_names_its_parameter() {
    let [zero, len] = [["--arg", "u64=0"], ["--arg", "u32=0"]];
    copy_refused(&[zero, zero, zero].concat(), 2, "parameter 3 (len) takes 4 bytes, but u64=0 has 8 bytes");
    copy_refused(&[len, zero, len].concat(), 2, "parameter 1 (from) takes 8 bytes, but u32=0 has 4 bytes");
    let array = ["--arg", "out=y.npy,f32,4"];
    copy_refused(
        &[zero, zero, array].concat(),
        2,
        "parameter 3 (len) takes 4 bytes, but the address of an array has 8",
    );
    copy_refused(&[zero, zero, ["--arg", "bytes=00"]].concat(), 2, "takes 4 bytes, but bytes= has 1 byte");
    copy_refused(
        &[zero, zero, ["--arg", "f32=1"]].concat(),
        2,
        "parameter 3 (len) is declared as .u32 of 4 bytes, but f32=1 is given",
    );
    let file = ptx("scalars");
    let args = ["u64=0", "i32=0", "u32=0", "i64=0", "u64=0", "i32=0", "f64=0", "bytes=0000000000000000"];
    let args = args.iter().flat_map(|arg| ["--arg", arg]);
    let args: Vec<&str> =
        ["sim", &file, "--entry", "scalars", "--grid", "1", "--block", "1"].into_iter().chain(args).collect();
    refused(&args, 2, "parameter 6 (e) is declared as .f32 of 4 bytes, but i32=0 is given");
}

#[test]
fn forms_of_arguments_that_do_not_exist() {
    copy_refused(&["--arg", "x.npy"], 2, "invalid value 'x.npy' for '--arg <SPEC>': expected in=PATH.npy");
    copy_refused(&["--arg", "f16=1"], 2, "unknown form 'f16='");
    copy_refused(&["--arg", "u32=-1"], 2, "'-1' is not an integer of 32 bits");
    copy_refused(&["--arg", "out=y.npy,f12,4"], 2, "unknown element type 'f12'");
    copy_refused(&["--arg", "out=y.npy,f32,4by4"], 2, "'4by4' is not a shape");
    copy_refused(&["--arg", "bytes=0g"], 2, "'0g' is not pairs of hexadecimal digits");
}

#[test]
fn arrays_that_cannot_be_read_or_written() {
    let folder = folder("arrays_that_cannot_be_read_or_written");
    let path = folder.join("x.npy");
    let input = format!("in={}", path.display());
    let given = |arg: &str, code, part: &str| {
        copy_refused(&["--arg", arg, "--arg", "u64=0", "--arg", "u32=0"], code, part);
    };
    given(&input, 2, "cannot read ");
    let file = |bytes: &[u8]| std::fs::write(&path, bytes).expect("written");
    file(b"PK\x03\x04");
    given(&input, 2, "x.npy: it is not a .npy file");
    file(&npy("<c8", "(1,)", &[0; 8]));
    given(&input, 2, "x.npy: its elements have type '<c8', expected bool, or integers or floats of 8 to 64 bits");
    file(&npy("<f4", "(2,)", &[0; 4]));
    given(&input, 2, "4 bytes of data do not make an array of 2 f32");
    file(&npy("<f4", "(18446744073709551615, 18446744073709551615)", &[0; 4]));
    given(&input, 2, "do not make an array of ");
    given("out=no/such/folder/y.npy,f32,4", 2, "no/such/folder is not a folder");
    given(&format!("out={},f32,4", folder.display()), 2, "it is a folder");
    given("out=y.npy,f32,1000000000000", 4, "out of device memory: 4000000000000 bytes asked for");
}
