//! Every tree that the parser can give prints to text that parses to it.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use warpfold_ptx::{
    Address, AddressBase, Function, FunctionDirective, FunctionKind, Guard, Immediate, Initializer, Instruction, Item,
    Linkage, Module, Name, Opcode, Operand, PtrAttribute, RegisterDeclaration, ScalarType, Span, StateSpace, Statement,
    Variable, parse,
};

fn name() -> impl Strategy<Value = Name> {
    "[a-zA-Z][a-zA-Z0-9_$]{0,30}|[_$%][a-zA-Z0-9_$]{1,8}"
        .prop_filter("a constant, or an operator of initial values", |name| name != "WARP_SZ" && name != "generic")
        .prop_map(Name::from)
}

fn immediate() -> impl Strategy<Value = Immediate> {
    prop_oneof![
        any::<i64>().prop_map(|v| Immediate::Int(v.into())),
        any::<u64>().prop_map(|v| Immediate::Int(v.into())),
        any::<u32>().prop_map(Immediate::F32),
        any::<u64>().prop_map(Immediate::F64),
    ]
}

fn selector() -> impl Strategy<Value = Name> {
    "b[0-7]{1,4}|h[0-3]{1,2}".prop_map(Name::from)
}

fn address(coordinate: impl Strategy<Value = Operand>) -> impl Strategy<Value = Address> {
    let base = prop_oneof![
        (name().prop_map(AddressBase::Name), any::<i64>()),
        (any::<u64>().prop_map(AddressBase::Immediate), Just(0)),
    ];
    (base, vec(coordinate, 0..3)).prop_map(|((base, offset), coordinates)| Address { base, offset, coordinates })
}

/// What may stand after `!` or `-`.
fn named_operand() -> impl Strategy<Value = Operand> {
    let components = vec![None, Some('x'), Some('y'), Some('z'), Some('w'), Some('r'), Some('g'), Some('b'), Some('a')];
    prop_oneof![
        (name(), select(components)).prop_map(|(name, component)| Operand::Name { name, component }),
        (name(), selector()).prop_map(|(name, selector)| Operand::Selected { name, selector }),
        (name(), any::<i64>()).prop_map(|(name, offset)| Operand::NameOffset { name, offset }),
        Just(Operand::Sink),
    ]
}

/// An operand that no `|` follows or precedes.
fn single_operand() -> impl Strategy<Value = Operand> {
    let leaf = prop_oneof![
        4 => named_operand(),
        1 => named_operand().prop_map(|o| Operand::Not(Box::new(o))),
        1 => named_operand().prop_map(|o| Operand::Negate(Box::new(o))),
        2 => immediate().prop_map(Operand::Immediate),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![vec(inner.clone(), 1..5).prop_map(Operand::Vector), address(inner).prop_map(Operand::Address),]
    })
}

fn operand() -> impl Strategy<Value = Operand> {
    // After a number or an offset, `|` would be an operator of the constant expression.
    let first = single_operand().prop_filter("ends in a constant", |operand| match operand {
        Operand::Immediate(_) | Operand::NameOffset { .. } => false,
        Operand::Not(inner) | Operand::Negate(inner) => !matches!(**inner, Operand::NameOffset { .. }),
        _ => true,
    });
    prop_oneof![
        5 => single_operand(),
        1 => (first, single_operand()).prop_map(|(a, b)| Operand::Pair(Box::new(a), Box::new(b))),
    ]
}

fn modifiers() -> impl Strategy<Value = Vec<Name>> {
    vec("[a-z0-9]{1,6}(::[a-zA-Z0-9_]{1,12}){0,2}".prop_map(Name::from), 0..5)
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let guard = option::of((name(), any::<bool>()).prop_map(|(predicate, negated)| Guard { predicate, negated }));
    let operands = prop_oneof![
        5 => (select(Opcode::ALL), vec(operand(), 0..5)),
        1 => (vec(operand(), 0..3), operand(), vec(operand(), 0..3)).prop_map(|(returns, callee, arguments)| {
            (Opcode::Call, vec![Operand::List(returns), callee, Operand::List(arguments)])
        }),
    ];
    (guard, operands, modifiers()).prop_map(|(guard, (opcode, operands), modifiers)| Instruction {
        guard,
        opcode,
        modifiers,
        operands,
        span: Span::default(),
    })
}

fn initial_address() -> impl Strategy<Value = Initializer> {
    (any::<bool>(), name(), any::<i64>()).prop_map(|(generic, name, offset)| Initializer::Address {
        generic,
        name,
        offset,
    })
}

fn initializer() -> impl Strategy<Value = Initializer> {
    let value = || prop_oneof![immediate().prop_map(Initializer::Immediate), initial_address()];
    let leaf = prop_oneof![
        value(),
        (any::<u64>(), value())
            .prop_map(|(mask, address)| Initializer::MaskedAddress { mask, address: Box::new(address) }),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| vec(inner, 0..4).prop_map(Initializer::List))
}

fn ptr() -> impl Strategy<Value = PtrAttribute> {
    (option::of(select(StateSpace::ALL)), option::of(any::<u32>()))
        .prop_map(|(space, align)| PtrAttribute { space, align })
}

fn variable(spaces: &'static [StateSpace]) -> impl Strategy<Value = Variable> {
    let attribute = option::of("\\.(managed|unified\\([1-9][0-9]{0,3}, 0x[0-9]{1,3}\\))".prop_map(Name::from));
    let shape = prop_oneof![
        any::<u32>().prop_map(|count| (Some(count), Vec::new())),
        vec(option::of(any::<u64>()), 0..3).prop_map(|dims| (None, dims)),
    ];
    let head = (
        select(spaces),
        option::of(any::<u32>()),
        select(vec![1_u32, 2, 4]),
        select(ScalarType::ALL),
        option::of(ptr()),
    );
    (head, name(), shape, attribute).prop_map(|((space, align, vector, ty, ptr), name, (count, dims), attribute)| {
        Variable {
            linkage: None,
            space,
            align,
            vector,
            ty,
            ptr,
            name,
            count,
            dims,
            init: None,
            attribute,
            span: Span::default(),
        }
    })
}

fn initialized_variable(spaces: &'static [StateSpace]) -> impl Strategy<Value = Variable> {
    (variable(spaces), option::of(initializer())).prop_map(|(mut variable, init)| {
        variable.init = if variable.count.is_none() { init } else { None };
        variable
    })
}

fn parameters() -> impl Strategy<Value = Vec<Variable>> {
    vec(variable(&[StateSpace::Param, StateSpace::Reg]), 0..4)
}

fn directives() -> impl Strategy<Value = Vec<FunctionDirective>> {
    let directive = |name: &str, values, strings| FunctionDirective { name: Name::new(name), values, strings };
    vec(
        prop_oneof![
            (select(vec!["maxntid", "reqntid", "reqnctapercluster"]), vec(any::<u64>(), 1..4))
                .prop_map(move |(name, values)| directive(name, values, vec![])),
            (select(vec!["maxnreg", "minnctapersm", "abi_preserve"]), any::<u64>())
                .prop_map(move |(name, value)| directive(name, vec![value], vec![])),
            select(vec!["noreturn", "explicitcluster"]).prop_map(move |name| directive(name, vec![], vec![])),
            vec("[a-z0-9 ]{0,8}".prop_map(Name::from), 1..3).prop_map(move |strings| directive(
                "pragma",
                vec![],
                strings
            )),
        ],
        0..3,
    )
}

/// A statement; registers have a declaration of their own, so that variables start after
/// [`StateSpace::Reg`].
fn statement() -> impl Strategy<Value = Statement> {
    let register = (select(vec![1_u32, 2, 4]), select(ScalarType::ALL), vec((name(), option::of(any::<u32>())), 1..4))
        .prop_map(|(vector, ty, names)| Statement::Register(RegisterDeclaration { vector, ty, names }));
    let location =
        (any::<[u32; 3]>(), option::of((name(), any::<[u32; 3]>()))).prop_map(|([file, line, column], rest)| {
            let rest = rest.map(|(label, [f, l, c])| format!("function_name {label}+4, inlined_at {f} {l} {c}").into());
            Statement::Location { file, line, column, rest }
        });
    let prototype = (name(), parameters(), parameters(), directives())
        .prop_map(|(name, returns, params, directives)| Statement::CallPrototype { name, returns, params, directives });
    let leaf = prop_oneof![
        8 => instruction().prop_map(Statement::Instruction),
        2 => name().prop_map(|name| Statement::Label { name, span: Span::default() }),
        2 => register,
        2 => initialized_variable(&StateSpace::ALL[1..]).prop_map(Statement::Variable),
        1 => location,
        1 => vec("[a-z ]{0,9}".prop_map(Name::from), 1..3).prop_map(Statement::Pragma),
        1 => (name(), vec(name(), 1..4)).prop_map(|(name, targets)| Statement::BranchTargets { name, targets }),
        1 => (name(), vec(name(), 1..4)).prop_map(|(name, targets)| Statement::CallTargets { name, targets }),
        1 => prototype,
    ];
    leaf.prop_recursive(4, 20, 5, |inner| vec(inner, 0..5).prop_map(Statement::Scope))
}

fn function() -> impl Strategy<Value = Function> {
    let kind = prop_oneof![
        Just((FunctionKind::Entry, vec![])).boxed(),
        parameters().prop_map(|returns| (FunctionKind::Func, returns)).boxed(),
    ];
    let linkage = option::of(select(Linkage::ALL));
    (linkage, kind, name(), parameters(), directives(), option::of(vec(statement(), 0..12))).prop_map(
        |(linkage, (kind, returns), name, params, directives, body)| Function {
            linkage,
            kind,
            returns,
            name,
            params,
            directives,
            body,
            span: Span::default(),
        },
    )
}

fn item() -> impl Strategy<Value = Item> {
    let text =
        select(vec![".file 1 \"a b.cu\"", ".section .debug_str { a: .b8 1, 2 }", "@@DWARF .byte 1", ".pragma \"x\";"]);
    prop_oneof![
        3 => function().prop_map(Item::Function),
        3 => (option::of(select(Linkage::ALL)), initialized_variable(StateSpace::ALL))
            .prop_map(|(linkage, variable)| Item::Variable(Variable { linkage, ..variable })),
        1 => (name(), name()).prop_map(|(name, target)| Item::Alias { name, target }),
        1 => text.prop_map(|text| Item::Directive(Name::new(text))),
    ]
}

fn module() -> impl Strategy<Value = Module> {
    (any::<(u32, u32)>(), vec(name(), 1..3), select(vec![32_u32, 64]), vec(item(), 0..5))
        .prop_map(|(version, target, address_size, items)| Module { version, target, address_size, items })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_printed_tree_parses_to_itself(module in module()) {
        let text = module.to_string();
        let parsed = parse(&text);
        prop_assert_eq!(parsed.as_ref(), Ok(&module), "{}", text);
        prop_assert_eq!(parsed.map(|m| m.to_string()), Ok(text));
    }

    #[test]
    fn a_printed_instruction_is_one_line(instruction in instruction()) {
        let text = instruction.to_string();
        prop_assert!(text.ends_with(';') && !text.contains('\n'), "{}", text);
    }
}
