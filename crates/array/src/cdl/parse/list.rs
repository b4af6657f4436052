//! Lists of values: [`ListSummary`] is what a first look at one tells, [`ListReader`] reads one.
//!
//! The first look checks commas and braces. So a reader, which comes later, can skip commas and
//! knows that each brace is closed.

use striate_hdf5::write::netcdf::AtomicType;

use super::MAX_DEPTH;
use super::constant::{Number, is_nil, named};
use super::document::ValueList;
use super::group::Parser;
use super::place::{Fault, Parsed};
use super::token::{Lexer, Token};

/// What the values of a list have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListSummary {
    /// Where the list is.
    pub(super) list: ValueList,
    /// Where the first `_` is.
    pub(super) fill: Option<usize>,
    /// The type that the values have by themselves: `None` if they have none in common, or are not
    /// simple.
    pub(super) kind: Option<AtomicType>,
}

/// The types of the values seen so far.
#[derive(Debug, Default)]
struct SeenKinds {
    text: bool,
    /// Float or double, whichever holds all of them.
    real: Option<AtomicType>,
    /// The integer type that holds all integers.
    integer: Option<AtomicType>,
    negative: bool,
    other: bool,
}

impl SeenKinds {
    fn add(&mut self, token: &Token<'_>) {
        match token {
            Token::Text(_) => self.text = true,
            Token::Number(number) => self.add_number(*number),
            // A character by itself is a byte; among text it is text.
            Token::Character(value) => {
                let value = i128::from(*value as i8);
                self.add_number(Number::Integer(value, AtomicType::Byte));
            }
            Token::Name(name) => match named(name) {
                Some(number) => self.add_number(number),
                None => self.other = true,
            },
            _ => self.other = true,
        }
    }

    fn add_number(&mut self, number: Number) {
        match number {
            Number::Float(_) => self.real = self.real.or(Some(AtomicType::Float)),
            Number::Double(_) => self.real = Some(AtomicType::Double),
            Number::Integer(value, kind) => {
                self.negative |= value < 0;
                self.integer = Some(match self.integer {
                    Some(seen) if rank(seen) > rank(kind) => seen,
                    _ => kind,
                });
            }
        }
    }

    fn common(&self) -> Option<AtomicType> {
        let numbers = self.real.is_some() || self.integer.is_some();
        match self {
            Self { other: true, .. } => None,
            Self { text: true, .. } => (!numbers).then_some(AtomicType::Char),
            Self { real: Some(kind), .. } => Some(*kind),
            Self { integer: Some(kind), negative: true, .. } => Some(signed(*kind)),
            Self { integer: Some(kind), .. } => Some(*kind),
            _ => Some(AtomicType::Char),
        }
    }
}

/// Wider integer types have a higher one.
const fn rank(kind: AtomicType) -> u8 {
    match kind {
        AtomicType::Byte | AtomicType::UByte => 1,
        AtomicType::Short | AtomicType::UShort => 2,
        AtomicType::Int | AtomicType::UInt => 4,
        _ => 8,
    }
}

/// The signed type of the same width.
const fn signed(kind: AtomicType) -> AtomicType {
    match rank(kind) {
        1 => AtomicType::Byte,
        2 => AtomicType::Short,
        4 => AtomicType::Int,
        _ => AtomicType::Int64,
    }
}

impl Parser<'_> {
    /// A list up to its semicolon, which is taken.
    pub(super) fn list(&mut self) -> Parsed<ListSummary> {
        self.lexer.skip_space()?;
        let list = ValueList { at: self.lexer.at(), items: 0 };
        let mut seen = SeenKinds::default();
        let mut summary = ListSummary { list, fill: None, kind: None };
        let mut depth = 0_usize;
        // Whether a value may come, and whether one must.
        let (mut value, mut needed) = (true, false);
        loop {
            let (token, at) = self.next()?;
            match token {
                Token::Mark(b';') if depth == 0 && !needed => break,
                Token::Mark(b'}') if depth > 0 && !needed => {
                    depth -= 1;
                    (value, needed) = (false, false);
                }
                Token::Mark(b',') if !value => (value, needed) = (true, true),
                Token::Mark(b'{') if value => {
                    summary.list.items += u64::from(depth == 0);
                    depth += 1;
                    seen.other = true;
                    if depth > MAX_DEPTH {
                        let problem = format!("braces are more than {MAX_DEPTH} deep");
                        return Err(Fault::new(at, problem));
                    }
                    (value, needed) = (true, false);
                }
                Token::Mark(_) | Token::End => {
                    let wanted = match (value, depth) {
                        (true, _) => "a value",
                        (_, 0) => "',' or ';'",
                        _ => "',' or '}'",
                    };
                    return Err(Fault::expected(at, wanted, token));
                }
                _ if !value => return Err(Fault::expected(at, "',' or ';'", token)),
                token => {
                    summary.list.items += u64::from(depth == 0);
                    if token == Token::Fill {
                        summary.fill = summary.fill.or(Some(at));
                    }
                    if depth == 0 {
                        seen.add(&token);
                    }
                    (value, needed) = (false, false);
                }
            }
        }
        summary.kind = seen.common();
        Ok(summary)
    }
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item<'t> {
    /// `{`
    Open,
    /// `}`, or the end of the list.
    Close,
    /// A value.
    Value(Token<'t>),
}

impl Item<'_> {
    /// What an error calls it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Open => "'{'".into(),
            Self::Close => "the end of the list".into(),
            Self::Value(token) => token.to_string(),
        }
    }
}

/// A place in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListReader<'t> {
    lexer: Lexer<'t>,
}

impl<'t> ListReader<'t> {
    pub(super) const fn new(text: &'t [u8], list: ValueList) -> Self {
        Self { lexer: Lexer::new(text, list.at) }
    }

    /// The next part and where it is. The end of the list comes again and again.
    pub(super) fn next(&mut self) -> Parsed<(Item<'t>, usize)> {
        loop {
            let before = self.lexer;
            let (token, at) = self.lexer.next()?;
            let item = match token {
                Token::Mark(b',') => continue,
                Token::Mark(b'{') => Item::Open,
                Token::Mark(b'}') => Item::Close,
                Token::Mark(_) | Token::End => {
                    self.lexer = before;
                    Item::Close
                }
                token => Item::Value(token),
            };
            return Ok((item, at));
        }
    }

    /// The next part, which is not taken.
    pub(super) fn peek(&self) -> Parsed<(Item<'t>, usize)> {
        let mut ahead = *self;
        ahead.next()
    }

    /// Skips what is left of braces, of which one was taken, and the brace that closes them.
    pub(super) fn skip_braces(&mut self) -> Parsed<()> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.next()?.0 {
                Item::Open => depth += 1,
                Item::Close => depth -= 1,
                Item::Value(_) => {}
            }
        }
        Ok(())
    }
}

/// Whether a value stands for no text.
pub(super) fn is_nil_value(token: &Token<'_>) -> bool {
    matches!(token, Token::Name(name) if is_nil(name))
}
