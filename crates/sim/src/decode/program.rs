//! Modules and functions: declarations, scopes, statements.

use std::collections::HashMap;

use warpfold_ptx::{
    Function, FunctionKind, Instruction, Item, Module, Name, RegisterDeclaration, ScalarType as T, Sources, StateSpace,
    Statement, Variable,
};

use super::builder::{FunctionBuilder, Resource};
use super::control::index_u32;
use super::names::{self, names};
use super::scope::{Place, RegisterInfo, Symbol};
use super::{Decoder, cfg, dispatch, liveness, qualifiers, sync};
use crate::exec::code::{
    CallSlot, Class, Code, FunctionCode, InstructionInfo, NO_BLOCK, NamedSlot, Placed, Terminator,
};
use crate::exec::frame::MAX_LOCAL_BYTES;
use crate::exec::op::Level;
use crate::layout::{bytes_of, invalid_variable, place, static_name};
use crate::report::Shapes;
use crate::static_shared::names_reserved;
use crate::tensor_ops::rules::registers_of_products;
use crate::{Arch, Error};

/// Distance between shared variables in checked mode, so that a small overrun is detected. A
/// multiple of 128, so that every variable keeps its banks.
const RED_ZONE: u32 = 256;

/// Decodes a module.
pub(crate) fn decode(
    module: &Module,
    globals: &HashMap<String, (u64, u64)>,
    arch: Arch,
    checked: bool,
) -> Result<Code, Error> {
    names::check(module)?;
    let mut d = Decoder {
        level: Level::detect(),
        checked,
        target: target(module),
        arch,
        code: Code { shapes: Shapes::of(module), ..Code::default() },
        globals,
        module_scope: HashMap::new(),
        shared_places: HashMap::new(),
        sources: Sources::of(module),
        source: None,
        f: FunctionBuilder::default(),
    };
    if names_reserved(module) {
        d.code.reserve_shared();
    }
    d.declare_items(module)?;
    let bodies: Vec<&Function> = functions(module).filter(|f| f.body.is_some()).collect();
    for (index, function) in bodies.iter().enumerate() {
        d.code.function_index.insert(function.name.to_string(), index_u32(index));
    }
    // Shared variables of all functions are placed first: dynamic shared memory starts after them.
    for function in &bodies {
        d.place_shared(function.body.as_deref().unwrap_or_default())?;
    }
    for (index, function) in bodies.iter().enumerate() {
        d.function_or_refusal(function, index_u32(index))?;
    }
    Ok(d.code)
}

fn target(module: &Module) -> (u32, bool) {
    let Some(target) = module.target.first() else { return (0, false) };
    let digits: String = target.chars().filter(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(0), target.ends_with('a'))
}

fn functions(module: &Module) -> impl Iterator<Item = &Function> {
    module.items.iter().filter_map(|item| match item {
        Item::Function(f) => Some(f),
        _ => None,
    })
}

impl Decoder<'_> {
    fn declare_items(&mut self, module: &Module) -> Result<(), Error> {
        for item in &module.items {
            match item {
                Item::Function(f) => {
                    self.module_scope.insert(f.name.clone(), Symbol::Function(f.name.clone()));
                }
                Item::Variable(v) if v.space == StateSpace::Tex => {
                    self.module_scope.extend(names(v).into_iter().map(|name| (name, Symbol::Texture)));
                }
                Item::Variable(v) => {
                    for name in names(v) {
                        let place = self.place_variable(v, &name)?;
                        self.module_scope.insert(name, Symbol::Variable(place));
                    }
                }
                Item::Alias { name, target } => {
                    self.module_scope.insert(name.clone(), Symbol::Function(target.clone()));
                }
                Item::Directive(_) => {}
            }
        }
        Ok(())
    }

    /// Places a module-scope variable, or a static one of a function.
    fn place_variable(&mut self, v: &Variable, name: &Name) -> Result<Place, Error> {
        match v.space {
            StateSpace::Global | StateSpace::Const => self.place_global(v, name),
            StateSpace::Shared => self.place_shared_variable(v, name),
            StateSpace::Tex => Err(Error::Unsupported {
                line: v.span.line,
                text: name.to_string(),
                reason: "textures are not executed".to_owned(),
            }),
            StateSpace::Reg | StateSpace::Local | StateSpace::Param | StateSpace::Sreg => {
                Err(invalid_variable(v, "this state space is not allowed here"))
            }
        }
    }

    fn place_global(&self, v: &Variable, name: &str) -> Result<Place, Error> {
        let place = self.globals.get(name).map(|&(address, _)| Place::Global(address));
        place.ok_or_else(|| invalid_variable(v, "it is not defined in this module"))
    }

    fn place_shared_variable(&mut self, v: &Variable, name: &Name) -> Result<Place, Error> {
        let align = v.align.unwrap_or(v.ty.bytes() * v.vector).max(1);
        let Some(bytes) = bytes_of(v) else {
            self.code.dynamic_align = self.code.dynamic_align.max(align);
            self.code.dynamic_shared.get_or_insert_with(|| name.to_string());
            return Ok(Place::DynamicShared);
        };
        let too_large = || invalid_variable(v, "it is too large for shared memory");
        let bytes = u32::try_from(bytes).map_err(|_| too_large())?;
        if bytes == 0 {
            return Ok(Place::DynamicShared);
        }
        let gap = if self.checked && !self.code.shared.is_empty() { RED_ZONE } else { 0 };
        let (offset, end) = place(self.code.static_shared + gap, align, bytes).ok_or_else(too_large)?;
        self.code.static_shared = end;
        self.code.shared.push(Placed { name: name.to_string(), offset, bytes });
        Ok(Place::Shared(offset))
    }

    /// Places the shared variables of a function body. Their names are unique in what compilers
    /// emit; two functions that use the same name get one place each.
    fn place_shared(&mut self, body: &[Statement]) -> Result<(), Error> {
        for statement in body {
            match statement {
                Statement::Variable(v) if v.space == StateSpace::Shared => {
                    for name in names(v) {
                        let place = self.place_shared_variable(v, &name)?;
                        self.shared_places.insert((v.span.line, v.span.column, name), place);
                    }
                }
                Statement::Scope(inner) => self.place_shared(inner)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Decodes a function. An instruction that is not executed here leaves only the error, which
    /// refuses the kernels that reach the function.
    fn function_or_refusal(&mut self, function: &Function, index: u32) -> Result<(), Error> {
        let (ops, blocks, instructions) = (self.code.ops.len(), self.code.blocks.len(), self.code.instructions.len());
        match self.function(function, index) {
            Err(reason @ Error::Unsupported { .. }) => {
                self.code.ops.truncate(ops);
                self.code.blocks.truncate(blocks);
                self.code.instructions.truncate(instructions);
                self.code.flows.truncate(instructions);
                let refusal =
                    FunctionCode { name: function.name.to_string(), refusal: Some(reason), ..Default::default() };
                self.code.functions.push(refusal);
                Ok(())
            }
            other => other,
        }
    }

    fn function(&mut self, function: &Function, index: u32) -> Result<(), Error> {
        self.f = FunctionBuilder {
            index,
            is_kernel: function.kind == FunctionKind::Entry,
            scopes: vec![HashMap::new()],
            ..FunctionBuilder::default()
        };
        self.source = None;
        let mut code = FunctionCode { name: function.name.to_string(), ..FunctionCode::default() };
        if self.f.is_kernel {
            for (v, slot) in function.params.iter().zip(crate::layout::parameters(&function.params)?) {
                self.f.scopes[0].insert(v.name.clone(), Symbol::Variable(Place::KernelParam(slot.offset, slot.bytes)));
            }
        } else {
            for v in &function.returns {
                self.parameter(v, &mut code.returns)?;
            }
            for v in &function.params {
                self.parameter(v, &mut code.params)?;
            }
        }
        let first = self.new_block();
        self.f.ended = true;
        self.begin_block(first);
        for slot in &code.params {
            // The arguments are written when the frame starts.
            self.define_slot(*slot);
        }
        let body = function.body.as_deref().unwrap_or_default();
        self.f.watched = registers_of_products(body);
        self.statements(body, true)?;
        if !self.f.ended {
            self.end_block(if self.f.is_kernel { Terminator::Exit } else { Terminator::Return });
        }
        cfg::fill_joins(&mut self.code, first);
        let live = liveness::analyse(&self.code, &self.f, first);
        for what in live.undefined {
            match what {
                Resource::Register(r) => {
                    let info = self.f.registers[r as usize];
                    let row = self.f.register_row(r);
                    code.clear_rows.extend(row..row + info.ty.bits().div_ceil(32).max(1));
                }
                Resource::Predicate(p) => code.clear_predicates.push(p),
            }
        }
        code.entry = first;
        code.registers = live.registers;
        code.predicate_row = self.f.rows;
        code.rows = self.f.rows + self.f.predicates.div_ceil(32);
        code.fills = std::mem::take(&mut self.f.fill_list);
        code.local_bytes = self.f.local_bytes;
        code.locals = std::mem::take(&mut self.f.locals);
        code.named = self.named_slots();
        self.code.functions.push(code);
        Ok(())
    }

    /// The slots of the declared registers that are used.
    fn named_slots(&mut self) -> Vec<NamedSlot> {
        let named = std::mem::take(&mut self.f.named);
        let slot = |resource| match resource {
            Resource::Register(register) => {
                let RegisterInfo { ty, row } = self.f.registers[register as usize];
                row.map(|row| RegisterInfo::slot(row, ty))
            }
            Resource::Predicate(predicate) => Some(CallSlot::Predicate(predicate)),
        };
        named
            .into_iter()
            .filter_map(|(name, ty, resource)| Some(NamedSlot { name, ty, slot: slot(resource)? }))
            .collect()
    }

    fn define_slot(&mut self, slot: CallSlot) {
        let register = match slot {
            CallSlot::Register { row, .. } => self.f.registers.iter().position(|r| r.row == Some(row)),
            CallSlot::Predicate(p) => return self.f.note_define(Resource::Predicate(p)),
            CallSlot::Local { .. } => None,
        };
        if let Some(register) = register {
            self.f.note_define(Resource::Register(index_u32(register)));
        }
    }

    /// Declares a parameter or return value of a device function, and adds its slots: one, or one
    /// an element of a vector register.
    fn parameter(&mut self, v: &Variable, slots: &mut Vec<CallSlot>) -> Result<(), Error> {
        let symbol = if v.space != StateSpace::Reg {
            let (offset, bytes) = self.local(v)?;
            slots.push(CallSlot::Local { offset, bytes });
            Symbol::Variable(Place::Local(offset, bytes))
        } else if v.ty == T::Pred {
            let p = self.f.fresh_predicate();
            slots.push(CallSlot::Predicate(p));
            Symbol::Predicate(p)
        } else {
            let elements: Vec<u32> = (0..v.vector).map(|_| self.f.declare_register(v.ty)).collect();
            for &register in &elements {
                slots.push(RegisterInfo::slot(self.f.register_row(register), v.ty));
            }
            match elements[..] {
                [register] => Symbol::Register { register },
                _ => Symbol::Vector(elements),
            }
        };
        self.f.scopes[0].insert(v.name.clone(), symbol);
        Ok(())
    }

    /// Allocates a variable in the frame's local memory.
    fn local(&mut self, v: &Variable) -> Result<(u32, u32), Error> {
        let bytes = bytes_of(v).ok_or_else(|| invalid_variable(v, "its size is not known"))?;
        let too_large = || invalid_variable(v, "it is too large for local memory");
        let bytes = u32::try_from(bytes).map_err(|_| too_large())?;
        // Frames start at multiples of 16, and calls copy whole words.
        let align = v.align.unwrap_or(v.ty.bytes() * v.vector).max(4);
        let (offset, end) =
            place(self.f.local_bytes, align, bytes).filter(|place| place.1 <= MAX_LOCAL_BYTES).ok_or_else(too_large)?;
        self.f.local_bytes = end.next_multiple_of(4);
        self.f.locals.push(Placed { name: v.name.to_string(), offset, bytes });
        Ok((offset, bytes))
    }

    /// Decodes the statements of one scope; the outermost one of a function has its scope already.
    fn statements(&mut self, body: &[Statement], outermost: bool) -> Result<(), Error> {
        if !outermost {
            self.f.scopes.push(HashMap::new());
        }
        for statement in body {
            match statement {
                Statement::Label { name, .. } => {
                    let block = self.new_block();
                    self.scope().insert(name.clone(), Symbol::Label(block));
                }
                Statement::BranchTargets { name, targets } => {
                    self.scope().insert(name.clone(), Symbol::BranchTargets(targets.clone()));
                }
                _ => {}
            }
        }
        for statement in body {
            self.statement(statement)?;
        }
        if !outermost {
            self.f.scopes.pop();
        }
        Ok(())
    }

    fn scope(&mut self) -> &mut HashMap<Name, Symbol> {
        self.f.scopes.last_mut().expect("a function has a scope")
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        match statement {
            Statement::Label { name, .. } => {
                let Some(Symbol::Label(block)) = self.scope().get(name).cloned() else {
                    unreachable!("labels were declared when the scope began")
                };
                self.begin_block(block);
                Ok(())
            }
            Statement::Register(declaration) => self.registers(declaration),
            Statement::Variable(v) => self.variable(v),
            Statement::Instruction(inst) => self.instruction(inst),
            Statement::Scope(inner) => self.statements(inner, false),
            Statement::CallPrototype { name, .. } | Statement::CallTargets { name, .. } => {
                self.scope().insert(name.clone(), Symbol::Prototype);
                Ok(())
            }
            Statement::Location { .. } => {
                self.source = self.sources.at(statement);
                Ok(())
            }
            Statement::Pragma(_) | Statement::BranchTargets { .. } => Ok(()),
        }
    }

    fn variable(&mut self, v: &Variable) -> Result<(), Error> {
        for name in names(v) {
            let place = match v.space {
                StateSpace::Local | StateSpace::Param => {
                    let (offset, bytes) = self.local(v)?;
                    Place::Local(offset, bytes)
                }
                StateSpace::Shared => {
                    let key = (v.span.line, v.span.column, name.clone());
                    self.shared_places.get(&key).copied().unwrap_or(Place::DynamicShared)
                }
                StateSpace::Global | StateSpace::Const => self.place_global(v, &static_name(v))?,
                StateSpace::Reg | StateSpace::Sreg | StateSpace::Tex => self.place_variable(v, &name)?,
            };
            self.scope().insert(name, Symbol::Variable(place));
        }
        Ok(())
    }

    fn registers(&mut self, declaration: &RegisterDeclaration) -> Result<(), Error> {
        for (name, count) in &declaration.names {
            let all: Vec<Name> = match count {
                Some(n) => (0..*n).map(|i| Name::from(format!("{name}{i}"))).collect(),
                None => vec![name.clone()],
            };
            for name in all {
                let symbol = if declaration.ty == T::Pred {
                    let predicate = self.f.fresh_predicate();
                    self.f.named.push((name.clone(), T::Pred, Resource::Predicate(predicate)));
                    Symbol::Predicate(predicate)
                } else if declaration.vector > 1 {
                    Symbol::Vector((0..declaration.vector).map(|_| self.f.declare_register(declaration.ty)).collect())
                } else {
                    let register = self.f.declare_register(declaration.ty);
                    self.f.named.push((name.clone(), declaration.ty, Resource::Register(register)));
                    Symbol::Register { register }
                };
                self.scope().insert(name, symbol);
            }
        }
        Ok(())
    }

    fn instruction(&mut self, inst: &Instruction) -> Result<(), Error> {
        if self.f.ended {
            // This code is unreachable, but must still be decoded.
            let block = self.new_block();
            self.begin_block(block);
        }
        let around = match &inst.guard {
            Some(guard) if sync::ends_block(inst) => {
                let predicate = self.predicate_named(inst, &guard.predicate)?;
                self.f.note_guard(predicate);
                let (body, next) = (self.new_block(), self.new_block());
                let (taken, next_block) = (body, next);
                self.end_block(Terminator::Branch {
                    predicate,
                    negated: guard.negated,
                    taken,
                    next: next_block,
                    join: NO_BLOCK,
                    instruction: None,
                });
                self.begin_block(body);
                Some(next)
            }
            _ => None,
        };
        let bare;
        let inst = if around.is_some() {
            bare = Instruction { guard: None, ..inst.clone() };
            &bare
        } else {
            inst
        };
        let whole;
        let inst = if let Some(operands) = self.elements_of_vectors(inst) {
            whole = Instruction { operands, ..inst.clone() };
            &whole
        } else {
            inst
        };
        self.f.guarded = inst.guard.is_some() || around.is_some();
        let is_branch = matches!(inst.opcode, warpfold_ptx::Opcode::Bra | warpfold_ptx::Opcode::Brx);
        self.code.instructions.push(InstructionInfo {
            line: inst.span.line,
            text: inst.to_string(),
            source: self.source.clone(),
            function: self.f.index,
            block: self.f.block,
            class: if is_branch { Class::Branch } else { Class::Other },
        });
        self.f.block_count += 1;
        let index = self.current_instruction();
        let events = self.f.events.len();
        self.watch_registers(inst);
        qualifiers::check(self, inst)?;
        dispatch::decode(self, inst)?;
        let main = self.f.pending.len().saturating_sub(1);
        if inst.opcode != warpfold_ptx::Opcode::Bra {
            self.finish(inst, index)?;
        }
        if self.checked {
            self.note_flow(inst, events, main, sync::ends_block(inst));
        }
        if let Some(next) = around {
            self.begin_block(next);
        }
        self.f.guarded = false;
        Ok(())
    }

    /// Sets the class of the current instruction's counters.
    pub(crate) fn set_class(&mut self, class: Class) {
        if let Some(info) = self.code.instructions.last_mut() {
            info.class = class;
        }
    }
}

/// Identity of a shared variable of a function body: the place of its declaration.
pub(crate) type SharedKey = (u32, u32, Name);
