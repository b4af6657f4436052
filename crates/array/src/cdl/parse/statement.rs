//! Statements: definitions of dimensions, variables and attributes, and values of variables.

use super::document::{CdlType, CdlVariable};
use super::group::{Parser, Section};
use super::names::NameKind;
use super::place::{Fault, Parsed};
use super::special::VariableSettings;
use super::token::Token;

/// Dimensions of a variable at most, as in netCDF.
const MOST_DIMENSIONS: usize = 1024;

/// Whose attribute is being defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttributeOwner {
    Group,
    Variable(usize),
}

impl Parser<'_> {
    /// A statement of a section, up to its semicolon. There is one: no section, brace or end of
    /// the text comes next.
    pub(super) fn statement(&mut self, section: Section) -> Parsed<()> {
        if self.takes(b':')? {
            return self.attribute(AttributeOwner::Group, None);
        }
        let (first, at) = self.peek()?;
        if !matches!(first, Token::Name(_) | Token::Path(_)) {
            return Err(Fault::expected(at, "a statement or '}'", first));
        }
        let before = self.lexer;
        self.next()?;
        let (second, _) = self.peek()?;
        if section == Section::Data && second == Token::Mark(b'=') {
            return self.values(&first, at);
        }
        if section == Section::Dimensions && second == Token::Mark(b'=') {
            self.lexer = before;
            return self.dimensions();
        }
        if section == Section::Types && self.type_definition(&first, at)? {
            return Ok(());
        }
        if second == Token::Mark(b':') {
            return self.attribute_of(&first, at);
        }
        if !matches!(second, Token::Name(_) | Token::Path(_)) {
            let (second, at) = self.next()?;
            let expected = match section {
                Section::None => "an attribute or a section",
                Section::Types => "a type or an attribute",
                Section::Dimensions | Section::Data => "'='",
                Section::Variables => "a variable or an attribute",
            };
            return Err(Fault::expected(at, expected, second));
        }
        let Some(of) = self.type_of(&first, at)? else {
            return Err(Fault::new(at, format!("there is no type {first}")));
        };
        // Either a variable or an attribute with its type.
        let after_type = self.lexer;
        let (owner, owner_at) = self.next()?;
        if self.takes(b':')? {
            let variable = self.resolve(NameKind::Variable, &owner, owner_at)?;
            return self.attribute(AttributeOwner::Variable(variable), Some(of));
        }
        self.lexer = after_type;
        if section != Section::Variables {
            let problem = "variables are defined in the section 'variables:'";
            return Err(Fault::new(at, problem));
        }
        self.variables(of)
    }

    /// `name:attribute`, where the name is that of a variable or of a type.
    fn attribute_of(&mut self, first: &Token<'_>, at: usize) -> Parsed<()> {
        if let Some(variable) = self.find(NameKind::Variable, first, at)? {
            self.mark(b':')?;
            return self.attribute(AttributeOwner::Variable(variable), None);
        }
        let Some(of) = self.type_of(first, at)? else {
            return Err(Fault::new(at, format!("there is no variable {first}")));
        };
        self.mark(b':')?;
        self.attribute(AttributeOwner::Group, Some(of))
    }

    /// Variables of a type: `a(x, y), b ;`.
    fn variables(&mut self, of: CdlType) -> Parsed<()> {
        loop {
            let number = self.document.variables.len();
            let (name, at) = self.new_name(NameKind::Variable, number)?;
            let mut dimensions = Vec::new();
            if self.takes(b'(')? && !self.takes(b')')? {
                loop {
                    let (reference, at) = self.next()?;
                    dimensions.push(self.resolve(NameKind::Dimension, &reference, at)?);
                    if dimensions.len() > MOST_DIMENSIONS {
                        let problem =
                            format!("a variable has at most {MOST_DIMENSIONS} dimensions");
                        return Err(Fault::new(at, problem));
                    }
                    if !self.takes(b',')? {
                        self.mark(b')')?;
                        break;
                    }
                }
            }
            self.document.variables.push(CdlVariable {
                group: self.group,
                name,
                of,
                dimensions,
                attributes: Vec::new(),
                settings: VariableSettings::default(),
                data: None,
                at,
            });
            if !self.takes(b',')? {
                return self.mark(b';');
            }
        }
    }

    /// Values of a variable, whose name was taken.
    fn values(&mut self, reference: &Token<'_>, at: usize) -> Parsed<()> {
        let variable = self.resolve(NameKind::Variable, reference, at)?;
        self.mark(b'=')?;
        let list = self.list()?.list;
        let Some(variable) = self.document.variables.get_mut(variable) else { return Ok(()) };
        if variable.data.is_some() {
            return Err(Fault::new(at, format!("variable {reference} has values already")));
        }
        // No values at all are the same as none given.
        variable.data = (list.items > 0).then_some(list);
        Ok(())
    }
}
