//! Warnings about definitions of skills and agents: all of them for a list, or one line per kind at
//! startup.

/// The warnings about the definitions of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefinitionWarnings {
    /// Files that are not valid definitions.
    pub(crate) invalid: Vec<String>,
    /// Definitions that another one with the same name overrides.
    pub(crate) shadowed: Vec<String>,
    /// All other warnings.
    pub(crate) other_warnings: Vec<String>,
}

impl DefinitionWarnings {
    /// Returns all warnings, one sentence each.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.invalid.iter().chain(&self.shadowed).chain(&self.other_warnings)
    }

    /// Adds a warning that belongs to no other kind.
    pub fn push(&mut self, warning: String) {
        self.other_warnings.push(warning);
    }

    /// Returns the warnings for startup: of each kind only the first, with the number of the
    /// others. `list` is the command that shows them all.
    pub fn summary(&self, list: &str) -> Vec<String> {
        let one_line = |warnings: &Vec<String>| {
            let (first, rest) = warnings.split_first()?;
            Some(match rest.len() {
                0 => first.clone(),
                more => format!("{first} (and {more} more like it; see `{list}`)"),
            })
        };
        let kinds = [&self.invalid, &self.shadowed].into_iter().filter_map(one_line);
        kinds.chain(self.other_warnings.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_shows_one_line_per_warning_kind() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let mut warnings =
            DefinitionWarnings { invalid: texts(&["a", "b", "c"]), ..Default::default() };
        warnings.shadowed = texts(&["d"]);
        warnings.push("e".to_owned());
        warnings.push("f".to_owned());
        let lines = warnings.summary("parallax x list");
        assert_eq!(lines, ["a (and 2 more like it; see `parallax x list`)", "d", "e", "f"]);
        assert_eq!(warnings.all().count(), 6);
        assert!(DefinitionWarnings::default().summary("x").is_empty());
    }
}
