//! The common part of the C libraries: definitions, and checks of the arguments passed to them.

use std::ffi::{CString, c_int};
use std::io;

use super::ArrayEngineError;
use crate::array::plan::{Access, FilePlan, Number, Schema, SchemaDimension, Variable};

/// A file of a library written in C, as far as definitions go.
pub(super) trait CLibrary {
    /// Defines a dimension.
    fn dimension(&self, dimension: &SchemaDimension) -> Result<c_int, ArrayEngineError>;

    /// Defines a variable, without attributes.
    fn variable(&self, variable: &Variable, dims: &[c_int]) -> Result<c_int, ArrayEngineError>;

    /// Sets an attribute.
    fn text(&self, variable: c_int, name: &str, text: &str) -> Result<(), ArrayEngineError>;

    /// Sets an attribute.
    fn number(&self, variable: c_int, name: &str, number: f64) -> Result<(), ArrayEngineError>;

    /// Ends define mode.
    fn end(&self) -> Result<(), ArrayEngineError>;

    /// The variable of that name.
    fn find(&self, name: &str) -> Result<c_int, ArrayEngineError>;

    /// How many variables there are.
    fn variables(&self) -> Result<usize, ArrayEngineError>;

    /// An attribute of one number.
    fn get_number(&self, variable: c_int, name: &str) -> Result<f64, ArrayEngineError>;

    /// Defines everything, and ends define mode. Returns the variables.
    fn define(&self, schema: &Schema) -> Result<Vec<c_int>, ArrayEngineError> {
        let dimensions = schema.dimensions.iter().map(|dimension| self.dimension(dimension));
        let dimensions = dimensions.collect::<Result<Vec<_>, _>>()?;
        let mut variables = Vec::with_capacity(schema.variables.len());
        for variable in &schema.variables {
            let of: Vec<c_int> = variable.dimensions.iter().map(|&d| dimensions[d]).collect();
            let id = self.variable(variable, &of)?;
            for (name, text) in &variable.texts {
                self.text(id, name, text)?;
            }
            for (name, number) in &variable.numbers {
                self.number(id, name, *number)?;
            }
            variables.push(id);
        }
        self.end()?;
        Ok(variables)
    }

    /// Looks for the variables; for the last alone, if there are no calls.
    fn look_up(&self, plan: &FilePlan) -> Result<Vec<c_int>, ArrayEngineError> {
        let variables = &plan.schema.variables;
        let first = if plan.steps.is_empty() { variables.len().saturating_sub(1) } else { 0 };
        variables[first..].iter().map(|variable| self.find(&variable.name)).collect()
    }

    /// What the file says about itself is what was defined.
    fn compare(&self, schema: &Schema) -> Result<(), ArrayEngineError> {
        let found = self.variables()?;
        if found != schema.variables.len() {
            return Err(ArrayEngineError::Differs(format!("{found} variables")));
        }
        for variable in &schema.variables {
            let id = self.find(&variable.name)?;
            for (name, number) in &variable.numbers {
                let found = self.get_number(id, name)?;
                if found.to_bits() != number.to_bits() {
                    let text = format!("{found} as {name} of {}", variable.name);
                    return Err(ArrayEngineError::Differs(text));
                }
            }
        }
        Ok(())
    }
}

/// Which elements of which variable, of what in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hyperslab<'p> {
    pub(super) variable: c_int,
    pub(super) start: &'p [u64],
    pub(super) count: &'p [u64],
    pub(super) number: Number,
}

impl<'p> Hyperslab<'p> {
    /// Those of an access; `variables` are all of the schema.
    pub(super) fn new(plan: &FilePlan, variables: &[c_int], access: &'p Access) -> Self {
        Self {
            variable: variables[access.variable],
            start: &access.start,
            count: &access.count,
            number: plan.schema.variables[access.variable].number,
        }
    }

    /// The number of dimensions and the type, if so many bytes at that address are what the counts
    /// say.
    pub(super) fn check(
        &self,
        at: *const u8,
        len: usize,
    ) -> Result<(c_int, c_int), ArrayEngineError> {
        let size = self.number.size();
        let elements = self.count.iter().try_fold(1u64, |all, n| all.checked_mul(*n));
        let bytes = elements.and_then(|n| n.checked_mul(size as u64));
        let is_aligned = at.align_offset(size) == 0;
        if bytes != Some(len as u64) || self.start.len() != self.count.len() || !is_aligned {
            let text = "the counts do not match the memory";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
        }
        Ok((self.start.len() as c_int, self.number.external().code() as c_int))
    }
}

/// A string of C.
pub(super) fn c_string(text: &[u8]) -> Result<CString, ArrayEngineError> {
    let held = || String::from_utf8_lossy(text).into_owned();
    CString::new(text).map_err(|_| ArrayEngineError::ZeroByte(held()))
}
