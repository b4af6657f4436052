//! Parsing: a recursive descent over a handful of words, with errors that point at the place.
//!
//! Total for any input: nesting is limited, and nothing is allocated that the text does not spell
//! out.

use std::str::FromStr;

use thiserror::Error;

use super::Notation;
use crate::{Datatype, Distribution, Element, MAX_DEPTH, Order, TypeError, parse_size};

/// Why a text is not a description.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotationError {
    /// The text does not follow the grammar.
    #[error("column {}: expected {expected}, found {found}", .position + 1)]
    Syntax {
        /// Where, in bytes from the start.
        position: usize,
        /// What could stand there.
        expected: String,
        /// What does.
        found: String,
    },
    /// A number that cannot stand there.
    #[error("column {}: {source}", .position + 1)]
    Number {
        /// Where, in bytes from the start.
        position: usize,
        /// What is wrong with it.
        source: TypeError,
    },
    /// Descriptions nested too deeply.
    #[error("column {}: nested deeper than {MAX_DEPTH}", .position + 1)]
    TooDeep {
        /// Where, in bytes from the start.
        position: usize,
    },
    /// The text is well formed, but there is no such type.
    #[error(transparent)]
    Type(#[from] TypeError),
}

impl FromStr for Notation {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let mut parser = Parser { text, position: 0, depth: 0 };
        let notation = parser.notation()?;
        parser.skip_space();
        if parser.rest().is_empty() { Ok(notation) } else { Err(parser.expected("the end")) }
    }
}

impl FromStr for Datatype {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        Ok(text.parse::<Notation>()?.build()?)
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: u32,
}

type Parsed<T> = Result<T, NotationError>;

impl<'a> Parser<'a> {
    fn notation(&mut self) -> Parsed<Notation> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(NotationError::TooDeep { position: self.position });
        }
        let start = self.position;
        let name = self.word();
        let notation = if let Some(element) = Element::from_name(name) {
            Notation::Element(element)
        } else if is_constructor(name) {
            self.sign('(')?;
            let notation = self.arguments(name)?;
            self.sign(')')?;
            notation
        } else {
            self.position = start;
            self.skip_space();
            return Err(self.expected("a type such as i32, vector(…), subarray(…)"));
        };
        self.depth -= 1;
        Ok(notation)
    }

    fn arguments(&mut self, constructor: &str) -> Parsed<Notation> {
        Ok(match constructor {
            "bytes" => Notation::Bytes(self.count()?),
            "contiguous" | "contig" => {
                Notation::Contiguous { count: self.count()?, of: self.of()? }
            }
            "vector" | "hvector" => {
                let count = self.count()?;
                self.sign(',')?;
                let block = self.count()?;
                let of = self.of()?;
                self.sign(',')?;
                let stride = self.labelled("stride", Self::number)?;
                match constructor {
                    "vector" => Notation::Vector { count, block, stride, of },
                    _ => Notation::Hvector { count, block, stride, of },
                }
            }
            "indexed" | "hindexed" => {
                let blocks = self.list(|parser| {
                    let len = parser.count()?;
                    parser.keyword("at")?;
                    Ok((len, parser.number()?))
                })?;
                let of = self.of()?;
                match constructor {
                    "indexed" => Notation::Indexed { blocks, of },
                    _ => Notation::Hindexed { blocks, of },
                }
            }
            "indexed_block" | "hindexed_block" => {
                let block = self.count()?;
                let of = self.of()?;
                self.sign(',')?;
                self.keyword("at")?;
                let offsets = self.list(Self::number)?;
                match constructor {
                    "indexed_block" => Notation::IndexedBlock { block, displacements: offsets, of },
                    _ => Notation::HindexedBlock { block, offsets, of },
                }
            }
            "struct" => Notation::Struct { fields: self.separated(')', Self::field)? },
            "subarray" => {
                let sizes = self.list(Self::count)?;
                let of = self.of()?;
                self.sign(',')?;
                let subsizes = self.list(Self::count)?;
                self.keyword("at")?;
                let starts = self.list(Self::count)?;
                Notation::Subarray { sizes, subsizes, starts, order: self.order()?, of }
            }
            "darray" => {
                let sizes = self.list(Self::count)?;
                let of = self.of()?;
                self.sign(',')?;
                let distributions =
                    self.labelled("dist", |parser| parser.list(Self::distribution))?;
                self.sign(',')?;
                let grid = self.labelled("grid", |parser| parser.list(Self::count))?;
                self.sign(',')?;
                let rank = self.labelled("rank", Self::count)?;
                Notation::Darray { rank, sizes, distributions, grid, order: self.order()?, of }
            }
            "resized" => {
                let of = Box::new(self.notation()?);
                self.sign(',')?;
                let lb = self.labelled("lb", Self::number)?;
                self.sign(',')?;
                Notation::Resized { lb, extent: self.labelled("extent", Self::number)?, of }
            }
            _ => Notation::Dup { of: Box::new(self.notation()?) },
        })
    }

    /// `N of TYPE at OFFSET`
    fn field(&mut self) -> Parsed<(u64, i64, Notation)> {
        let count = self.count()?;
        self.keyword("of")?;
        let of = self.notation()?;
        self.keyword("at")?;
        Ok((count, self.number()?, of))
    }

    /// `of TYPE`, or nothing: bytes.
    fn of(&mut self) -> Parsed<Box<Notation>> {
        let of =
            if self.try_word("of") { self.notation()? } else { Notation::Element(Element::Byte) };
        Ok(Box::new(of))
    }

    fn order(&mut self) -> Parsed<Order> {
        if !self.try_sign(',') {
            return Ok(Order::C);
        }
        self.labelled("order", |parser| {
            if parser.try_word("c") {
                Ok(Order::C)
            } else if parser.try_word("fortran") {
                Ok(Order::Fortran)
            } else {
                Err(parser.expected("c or fortran"))
            }
        })
    }

    fn distribution(&mut self) -> Parsed<Distribution> {
        if self.try_word("block") {
            if !self.try_sign('(') {
                return Ok(Distribution::Block(None));
            }
            let length = self.count()?;
            self.sign(')')?;
            Ok(Distribution::Block(Some(length)))
        } else if self.try_word("cyclic") {
            if !self.try_sign('(') {
                return Ok(Distribution::Cyclic(1));
            }
            let length = self.count()?;
            self.sign(')')?;
            Ok(Distribution::Cyclic(length))
        } else if self.try_word("none") {
            Ok(Distribution::None)
        } else {
            Err(self.expected("block, block(n), cyclic(n) or none"))
        }
    }

    /// `label=VALUE`
    fn labelled<T>(
        &mut self,
        label: &str,
        value: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        if !self.try_word(label) {
            return Err(self.expected(&format!("{label}=")));
        }
        self.sign('=')?;
        value(self)
    }

    /// `[ITEM, ITEM, …]`
    fn list<T>(&mut self, item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.sign('[')?;
        let items = self.separated(']', item)?;
        self.sign(']')?;
        Ok(items)
    }

    /// `ITEM, ITEM, …` up to, not including, `close`.
    fn separated<T>(
        &mut self,
        close: char,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        self.skip_space();
        if self.rest().starts_with(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.try_sign(',') {
                return Ok(items);
            }
        }
    }

    fn count(&mut self) -> Parsed<u64> {
        self.skip_space();
        let position = self.position;
        let value = self.number()?;
        u64::try_from(value).map_err(|_| {
            let source = TypeError::Negative { what: "a count or length", value };
            NotationError::Number { position, source }
        })
    }

    fn number(&mut self) -> Parsed<i64> {
        self.skip_space();
        let start = self.position;
        let negative = self.try_sign('-');
        let digits = self.rest();
        let len =
            digits.len() - digits.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let magnitude = parse_size(&digits[..len]);
        self.position += len;
        let value = match magnitude {
            Ok(magnitude) if negative => 0i64.checked_sub_unsigned(magnitude),
            Ok(magnitude) => i64::try_from(magnitude).ok(),
            Err(crate::SizeError::TooLarge(_)) => None,
            Err(_) => {
                self.position = start;
                return Err(self.expected("a number"));
            }
        };
        let source = TypeError::overflow("a number");
        value.ok_or(NotationError::Number { position: start, source })
    }

    fn word(&mut self) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let len = rest.len()
            - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
        self.position += len;
        &rest[..len]
    }

    fn try_word(&mut self, wanted: &str) -> bool {
        let start = self.position;
        let found = self.word() == wanted;
        if !found {
            self.position = start;
        }
        found
    }

    fn keyword(&mut self, wanted: &str) -> Parsed<()> {
        if self.try_word(wanted) { Ok(()) } else { Err(self.expected(&format!("'{wanted}'"))) }
    }

    fn try_sign(&mut self, sign: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(sign);
        if found {
            self.position += sign.len_utf8();
        }
        found
    }

    fn sign(&mut self, sign: char) -> Parsed<()> {
        if self.try_sign(sign) { Ok(()) } else { Err(self.expected(&format!("'{sign}'"))) }
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start().len();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn expected(&mut self, what: &str) -> NotationError {
        self.skip_space();
        let rest = self.rest();
        let found = match rest.chars().next() {
            None => "the end".into(),
            Some(c) if c.is_ascii_alphanumeric() => {
                let word: String = rest
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .take(32)
                    .collect();
                format!("'{word}'")
            }
            Some(c) => format!("'{c}'"),
        };
        NotationError::Syntax { position: self.position, expected: what.into(), found }
    }
}

fn is_constructor(name: &str) -> bool {
    [
        "bytes",
        "contiguous",
        "contig",
        "vector",
        "hvector",
        "indexed",
        "hindexed",
        "indexed_block",
        "hindexed_block",
        "struct",
        "subarray",
        "darray",
        "resized",
        "dup",
    ]
    .contains(&name)
}
