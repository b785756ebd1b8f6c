//! Iterators over the tree.

use crate::{Function, FunctionDirective, FunctionKind, Instruction, Item, Module, Statement, Variable};

impl Module {
    /// Its functions and kernels, declared or defined, in text order.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            Item::Variable(_) | Item::Alias { .. } | Item::Directive(_) => None,
        })
    }

    /// Its kernels that have a body, in text order.
    pub fn kernels(&self) -> impl Iterator<Item = &Function> {
        self.functions().filter(|f| f.kind == FunctionKind::Entry && f.body.is_some())
    }

    /// The function of this name; its definition rather than a declaration.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&Function> {
        let mut found = self.functions().filter(|f| f.name == name);
        let first = found.next()?;
        if first.body.is_some() { Some(first) } else { found.find(|f| f.body.is_some()).or(Some(first)) }
    }

    /// Its variables, in text order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.items.iter().filter_map(|item| match item {
            Item::Variable(variable) => Some(variable),
            Item::Function(_) | Item::Alias { .. } | Item::Directive(_) => None,
        })
    }
}

impl Function {
    /// The first directive of this name, without the dot.
    #[must_use]
    pub fn directive(&self, name: &str) -> Option<&FunctionDirective> {
        self.directives.iter().find(|d| d.name == name)
    }

    /// Every statement of the body in text order, a scope before its contents.
    #[must_use]
    pub fn statements(&self) -> Statements<'_> {
        Statements { stack: vec![self.body.as_deref().unwrap_or_default().iter()] }
    }

    /// Every instruction of the body in text order, those of nested scopes included.
    pub fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        self.statements().filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    }
}

/// The iterator of [`Function::statements`].
#[derive(Debug, Clone)]
pub struct Statements<'a> {
    stack: Vec<std::slice::Iter<'a, Statement>>,
}

impl<'a> Iterator for Statements<'a> {
    type Item = &'a Statement;

    fn next(&mut self) -> Option<&'a Statement> {
        loop {
            let Some(statement) = self.stack.last_mut()?.next() else {
                self.stack.pop();
                continue;
            };
            if let Statement::Scope(inner) = statement {
                self.stack.push(inner.iter());
            }
            return Some(statement);
        }
    }
}
