//! [`VariableReader`]: the elements of a variable in the order of a file.
//!
//! Elements that the text does not give have the fill value. There is no memory of what was read:
//! the place in the text and the place in each list that is open are all.

use striate_hdf5::model::ByteOrder;
use striate_hdf5::write::Elements;
use striate_hdf5::write::netcdf::AtomicType;

use super::document::{CdlAttribute, CdlDocument, CdlType, CdlVariable};
use super::element::characters;
use super::lengths::{blocks, not_in_braces, text_unit};
use super::list::{Item, ListReader};
use super::place::{CdlSyntaxError, Fault, Parsed, quoted};
use super::text_run::TextRun;
use super::token::Token;

/// The elements of a variable, from the first to the last. A clone continues from the same place.
#[derive(Clone, Debug)]
pub struct VariableReader<'d, 't> {
    document: &'d CdlDocument<'t>,
    variable: &'d CdlVariable,
    order: ByteOrder,
    reader: Option<ListReader<'t>>,
    /// The fill value.
    fill: Elements,
    /// Items in the lists of each block of dimensions.
    counts: Vec<u64>,
    /// The lists that are open.
    lists: Vec<OpenList>,
    /// The text that is being read, of a variable of characters.
    run: Option<TextRun<'t>>,
    total: u64,
}

/// A list that is being read.
#[derive(Clone, Copy, Debug)]
struct OpenList {
    /// Items so far.
    items: u64,
    /// Whether the text has no more of them.
    ended: bool,
}

impl<'t> CdlDocument<'t> {
    /// The elements of a variable. Numbers that are not in user-defined types have the byte order.
    pub fn elements<'d>(
        &'d self,
        variable: &'d CdlVariable,
        order: ByteOrder,
    ) -> Result<VariableReader<'d, 't>, CdlSyntaxError> {
        let lengths = self.lengths(variable);
        let blocks = blocks(self, variable);
        let count = |block: &std::ops::Range<usize>| {
            lengths.get(block.clone()).map_or(1, |lengths| lengths.iter().product())
        };
        let fill = self.fill_of(variable, order).map_err(|fault| fault.in_text(self.text))?;
        Ok(VariableReader {
            document: self,
            variable,
            order,
            reader: variable.data.map(|list| ListReader::new(self.text, list)),
            fill,
            counts: blocks.iter().map(count).collect(),
            lists: vec![OpenList { items: 0, ended: variable.data.is_none() }],
            run: None,
            total: lengths.iter().product(),
        })
    }

    /// The values of an attribute.
    pub fn values(
        &self,
        attribute: &CdlAttribute,
        order: ByteOrder,
    ) -> Result<Elements, CdlSyntaxError> {
        self.attribute_elements(attribute, order).map_err(|fault| fault.in_text(self.text))
    }

    fn attribute_elements(&self, attribute: &CdlAttribute, order: ByteOrder) -> Parsed<Elements> {
        let mut reader = ListReader::new(self.text, attribute.values);
        let mut out = Elements::new();
        if attribute.of == CdlType::Atomic(AtomicType::Char) {
            characters(&mut reader, &mut out)?;
            if out.is_empty() && attribute.name == "_FillValue" {
                // How ncdump shows the byte 0.
                out.push_fixed(&[0]);
            }
            return Ok(out);
        }
        loop {
            match reader.next()? {
                (Item::Close, _) => return Ok(out),
                (item, at) => self.value(&mut reader, item, at, attribute.of, order, &mut out)?,
            }
        }
    }

    /// What elements of a variable are that the text does not give.
    fn fill_of(&self, variable: &CdlVariable, order: ByteOrder) -> Parsed<Elements> {
        let given = variable.attributes.iter().find(|one| one.name == "_FillValue");
        let Some(attribute) = given else {
            let mut fill = Elements::new();
            self.fill(variable.of, order, &mut fill);
            return Ok(fill);
        };
        let value = self.attribute_elements(attribute, order)?;
        // Only text can have another size.
        if value.len() != self.size(variable.of) as usize {
            return Err(Fault::new(attribute.values.at, "_FillValue is one character"));
        }
        Ok(value)
    }
}

impl VariableReader<'_, '_> {
    /// How many elements there are.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The fill value.
    pub const fn fill(&self) -> &Elements {
        &self.fill
    }

    /// Appends the next `count` elements; there must be so many.
    pub fn read(&mut self, count: u64, out: &mut Elements) -> Result<(), CdlSyntaxError> {
        if self.reader.is_none() && self.fill.is_fixed() {
            out.push_fixed(&self.fill.as_bytes().repeat(count as usize));
            return Ok(());
        }
        let mut read = || (0..count).try_for_each(|_| self.element(out));
        read().map_err(|fault| fault.in_text(self.document.text))
    }

    fn element(&mut self, out: &mut Elements) -> Parsed<()> {
        self.open()?;
        let ended = self.lists.last().is_none_or(|list| list.ended);
        if ended || !self.given(out)? {
            out.append(self.fill.clone());
        }
        self.close()
    }

    /// Opens lists until one of elements is open.
    fn open(&mut self) -> Parsed<()> {
        while self.lists.len() < self.counts.len() {
            let mut inner = OpenList { items: 0, ended: true };
            if let (Some(outer), Some(reader)) = (self.lists.last_mut(), &mut self.reader)
                && !outer.ended
            {
                match reader.next()? {
                    (Item::Open, _) => inner.ended = false,
                    (Item::Close, _) => outer.ended = true,
                    (item, at) => return Err(not_in_braces(at, &item)),
                }
            }
            self.lists.push(inner);
        }
        Ok(())
    }

    /// The next element of the innermost list; `false` if the text does not give it.
    fn given(&mut self, out: &mut Elements) -> Parsed<bool> {
        let (Some(reader), Some(list)) = (&mut self.reader, self.lists.last_mut()) else {
            return Ok(false);
        };
        if self.variable.of == CdlType::Atomic(AtomicType::Char) {
            let fill = self.fill.as_bytes().first().copied().unwrap_or(0);
            let unit = text_unit(self.document, self.variable);
            let run = self.run.get_or_insert_with(|| TextRun::new(unit, fill));
            let byte = run.next(reader)?;
            list.ended = byte.is_none();
            out.push_fixed(byte.as_slice());
            return Ok(byte.is_some());
        }
        match reader.next()? {
            (Item::Close, _) => {
                list.ended = true;
                Ok(false)
            }
            (Item::Value(Token::Fill), _) => Ok(false),
            (item, at) => {
                self.document.value(reader, item, at, self.variable.of, self.order, out)?;
                Ok(true)
            }
        }
    }

    /// Counts an element, and closes lists that are complete.
    fn close(&mut self) -> Parsed<()> {
        loop {
            let Some(list) = self.lists.last_mut() else { return Ok(()) };
            list.items += 1;
            let ended = list.ended;
            let count = self.counts.get(self.lists.len() - 1).copied().unwrap_or(1);
            if self.lists.last().is_some_and(|list| list.items < count) {
                return Ok(());
            }
            let cut = self.run.take().is_some_and(|run| run.is_cut());
            if let Some(reader) = self.reader.as_mut().filter(|_| !ended) {
                let (item, at) = reader.next()?;
                if cut || item != Item::Close {
                    return Err(self.too_many(at, count));
                }
            }
            self.lists.pop();
        }
    }

    fn too_many(&self, at: usize, count: u64) -> Fault {
        let name = quoted(&self.variable.name);
        let what = match self.counts.len() {
            1 => format!("variable {name} has {count} elements"),
            _ => format!("lists of variable {name} have {count} elements here"),
        };
        Fault::new(at, format!("{what}, and more values are given"))
    }
}
