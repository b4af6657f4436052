//! [`Parser`]: a text as groups, and a group as sections.
//!
//! A recursive parser with one word of lookahead. Sections may come in any order and more than
//! once, as long as names are defined before they are used.

use super::document::{CdlDimension, CdlDocument, CdlGroup, CdlType};
use super::names::{ANYWHERE, NameKind, NameTable};
use super::place::{Fault, Parsed, quoted};
use super::token::{Lexer, Token, names_of_path};
use super::type_section::atomic_named;
use super::{MAX_DEPTH, special};
use crate::format::check_name;

/// The part of a group that a statement is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// Before all of them, where attributes may be.
    None,
    Types,
    Dimensions,
    Variables,
    Data,
}

/// A text that is being read.
#[derive(Debug)]
pub(super) struct Parser<'t> {
    pub(super) lexer: Lexer<'t>,
    pub(super) document: CdlDocument<'t>,
    pub(super) names: NameTable,
    /// The group that is being read.
    pub(super) group: usize,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        let root = CdlGroup { name: String::new(), parent: 0, attributes: Vec::new() };
        let document = CdlDocument {
            text,
            name: String::new(),
            format: None,
            groups: vec![root],
            dimensions: Vec::new(),
            types: Vec::new(),
            variables: Vec::new(),
        };
        Self { lexer: Lexer::new(text, 0), document, names: NameTable::default(), group: 0 }
    }

    /// All of the text.
    pub(super) fn document(mut self) -> Parsed<CdlDocument<'t>> {
        self.lexer.skip_byte_order_mark();
        match self.next()? {
            (Token::Name(word), _) if matches!(&*word, "netcdf" | "NETCDF" | "netCDF") => {}
            (other, at) => return Err(Fault::expected(at, "'netcdf'", other)),
        }
        let name = self.lexer.take_until(b'{');
        let name: Vec<u8> = name.iter().copied().filter(|&byte| byte > b' ').collect();
        self.document.name = String::from_utf8_lossy(&name).into_owned();
        self.mark(b'{')?;
        self.body(0)?;
        match self.next()? {
            (Token::End, _) => Ok(self.document),
            (other, at) => Err(Fault::expected(at, "the end of the text", other)),
        }
    }

    pub(super) fn next(&mut self) -> Parsed<(Token<'t>, usize)> {
        self.lexer.next()
    }

    /// The next word, which is not taken.
    pub(super) fn peek(&self) -> Parsed<(Token<'t>, usize)> {
        let mut ahead = self.lexer;
        ahead.next()
    }

    /// Takes a mark if it comes next.
    pub(super) fn takes(&mut self, mark: u8) -> Parsed<bool> {
        let is_it = self.peek()?.0 == Token::Mark(mark);
        if is_it {
            self.next()?;
        }
        Ok(is_it)
    }

    /// Takes a mark, which must come next.
    pub(super) fn mark(&mut self, mark: u8) -> Parsed<()> {
        match self.next()? {
            (Token::Mark(found), _) if found == mark => Ok(()),
            (other, at) => Err(Fault::expected(at, Token::Mark(mark), other)),
        }
    }

    /// Takes a name, which must come next.
    pub(super) fn name(&mut self, what: &str) -> Parsed<(String, usize)> {
        match self.next()? {
            (Token::Name(name), at) => Ok((name.into_owned(), at)),
            (other, at) => Err(Fault::expected(at, what, other)),
        }
    }

    /// Takes the name of something new.
    pub(super) fn new_name(&mut self, kind: NameKind, number: usize) -> Parsed<(String, usize)> {
        let (name, at) = self.name(&format!("the name of a {}", kind.word()))?;
        check_name(&name).map_err(|error| Fault::new(at, error.to_string()))?;
        if !self.names.add(self.group, kind, &name, number) {
            let problem = format!("there is a {} {} already", kind.word(), quoted(&name));
            return Err(Fault::new(at, problem));
        }
        Ok((name, at))
    }

    /// What is between the braces of a group, and its closing brace.
    fn body(&mut self, depth: usize) -> Parsed<()> {
        let mut section = Section::None;
        loop {
            if let Some(next) = self.section()? {
                section = next;
                continue;
            }
            let (token, at) = self.peek()?;
            match token {
                Token::Mark(b'}') => {
                    self.next()?;
                    return Ok(());
                }
                Token::Mark(b';') => {
                    // Types may or may not end with one.
                    self.next()?;
                }
                Token::End => return Err(Fault::expected(at, "'}'", token)),
                Token::Name(word) if &*word == "group" && self.is_section_mark(at, "group") => {
                    self.next()?;
                    self.mark(b':')?;
                    self.subgroup(depth + 1, at)?;
                }
                _ => self.statement(section)?,
            }
        }
    }

    fn subgroup(&mut self, depth: usize, at: usize) -> Parsed<()> {
        if depth > MAX_DEPTH {
            let problem = format!("groups are in each other more than {MAX_DEPTH} deep");
            return Err(Fault::new(at, problem));
        }
        let number = self.document.groups.len();
        let (name, _) = self.new_name(NameKind::Group, number)?;
        let parent = self.group;
        self.document.groups.push(CdlGroup { name, parent, attributes: Vec::new() });
        self.mark(b'{')?;
        self.group = number;
        self.body(depth)?;
        self.group = parent;
        Ok(())
    }

    /// Takes the word that begins a section, if one comes next.
    fn section(&mut self) -> Parsed<Option<Section>> {
        let (Token::Name(word), at) = self.peek()? else { return Ok(None) };
        let section = match &*word {
            "types" => Section::Types,
            "dimensions" => Section::Dimensions,
            "variables" => Section::Variables,
            "data" => Section::Data,
            _ => return Ok(None),
        };
        if !self.is_section_mark(at, &word) {
            return Ok(None);
        }
        self.next()?;
        self.mark(b':')?;
        Ok(Some(section))
    }

    /// Whether a word at a place begins a section: a colon follows at once. If there is a variable
    /// of this name, the text behind the colon is the name of an attribute unless there is space.
    fn is_section_mark(&self, at: usize, word: &str) -> bool {
        let behind = Lexer::new(self.document.text, at + word.len());
        let is_variable = self.names.in_group(self.group, NameKind::Variable, word).is_some();
        let space = behind.byte_after_next().is_none_or(|byte| byte.is_ascii_whitespace());
        behind.next_byte() == Some(b':') && (space || !is_variable)
    }

    /// Dimensions: `x = 3, y = UNLIMITED ;`.
    pub(super) fn dimensions(&mut self) -> Parsed<()> {
        loop {
            let number = self.document.dimensions.len();
            let (name, _) = self.new_name(NameKind::Dimension, number)?;
            self.mark(b'=')?;
            let (length, unlimited) = match self.next()? {
                (Token::Name(word), _) if matches!(&*word, "UNLIMITED" | "unlimited") => (0, true),
                (Token::Number(number), at) => {
                    let length = special::whole(number).and_then(|it| u64::try_from(it).ok());
                    let length = length.filter(|length| (1..=i64::MAX as u64).contains(length));
                    let problem = "the length of a dimension is UNLIMITED or a positive integer";
                    (length.ok_or_else(|| Fault::new(at, problem))?, false)
                }
                (other, at) => return Err(Fault::expected(at, "a length or UNLIMITED", other)),
            };
            let group = self.group;
            self.document.dimensions.push(CdlDimension { group, name, length, unlimited });
            if !self.takes(b',')? {
                return self.mark(b';');
            }
        }
    }

    /// The number of what a name or path means; `None` if there is none.
    pub(super) fn find(
        &self,
        kind: NameKind,
        reference: &Token<'_>,
        at: usize,
    ) -> Parsed<Option<usize>> {
        match reference {
            Token::Name(name) => {
                let mut group = self.group;
                loop {
                    if let Some(found) = self.names.in_group(group, kind, name) {
                        return Ok(Some(found));
                    }
                    if group == 0 {
                        return Ok(None);
                    }
                    group = self.document.groups.get(group).map_or(0, |one| one.parent);
                }
            }
            Token::Path(path) => {
                let names = names_of_path(path, at)?;
                let Some((last, groups)) = names.split_last() else { return Ok(None) };
                let mut group = 0;
                for name in groups {
                    let found = self.names.in_group(group, NameKind::Group, name);
                    group = found.ok_or_else(|| {
                        Fault::new(at, format!("there is no group {}", quoted(name)))
                    })?;
                }
                Ok(self.names.in_group(group, kind, last))
            }
            _ => Ok(None),
        }
    }

    /// What a name or path must mean.
    pub(super) fn resolve(
        &self,
        kind: NameKind,
        reference: &Token<'_>,
        at: usize,
    ) -> Parsed<usize> {
        if !matches!(reference, Token::Name(_) | Token::Path(_)) {
            return Err(Fault::expected(at, format!("a {}", kind.word()), reference));
        }
        let found = self.find(kind, reference, at)?;
        found.ok_or_else(|| Fault::new(at, format!("there is no {} {reference}", kind.word())))
    }

    /// The type that a name means: one of the text's, else netCDF's own, else one of a group that
    /// is not around this one: ncdump shows types without their groups.
    pub(super) fn type_of(&self, reference: &Token<'_>, at: usize) -> Parsed<Option<CdlType>> {
        if let Some(number) = self.find(NameKind::Type, reference, at)? {
            return Ok(Some(CdlType::User(number)));
        }
        let Token::Name(name) = reference else { return Ok(None) };
        let elsewhere = || self.names.in_group(ANYWHERE, NameKind::Type, name);
        let atomic = atomic_named(name).map(CdlType::Atomic);
        Ok(atomic.or_else(|| elsewhere().map(CdlType::User)))
    }
}
