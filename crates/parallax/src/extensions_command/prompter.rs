//! Who answers the questions of `extensions`: the terminal, or the user of an editor.

use parallax_extensions::ExtensionSetting;
use parallax_protocol::event::Failure;

use super::consent_refused_failure;

/// Answers the questions of a command.
pub(crate) trait Prompter {
    /// Shows text.
    fn print(&mut self, text: &str);

    /// Shows text and asks the user to agree, unless they gave their consent already.
    ///
    /// # Errors
    /// Returns an error if the user does not agree, or if there was no answer.
    fn confirm(&mut self, text: &str, consent: bool) -> Result<(), Failure>;

    /// Returns the value of a setting; empty: no value.
    ///
    /// # Errors
    /// Returns an error if there was no answer.
    fn value(&mut self, extension: &str, setting: &ExtensionSetting) -> Result<String, Failure>;

    /// Whether a file provides the value of a setting.
    fn has(&self, variable: &str) -> bool;

    /// Whether more answers may follow.
    fn can_be_asked(&self) -> bool;
}

/// Asks the user of an editor to agree. The values of settings are not asked for: they may be
/// secrets, which editors would show and save.
pub(crate) struct EditorPrompter<'a> {
    ask: &'a mut dyn FnMut(&str) -> bool,
    /// Texts that belong to the next question.
    printed: String,
}

impl<'a> EditorPrompter<'a> {
    /// Creates it. `ask` shows text and returns whether the user agrees to it.
    pub(crate) fn new(ask: &'a mut dyn FnMut(&str) -> bool) -> Self {
        Self { ask, printed: String::new() }
    }
}

impl Prompter for EditorPrompter<'_> {
    fn print(&mut self, text: &str) {
        self.printed.push_str(text);
    }

    fn confirm(&mut self, text: &str, _: bool) -> Result<(), Failure> {
        let text = std::mem::take(&mut self.printed) + text;
        match (self.ask)(&text) {
            true => Ok(()),
            false => Err(consent_refused_failure("Canceled. Nothing was changed.")),
        }
    }

    fn value(&mut self, _: &str, setting: &ExtensionSetting) -> Result<String, Failure> {
        Err(consent_refused_failure(&format!("No value for `{}`", setting.variable)))
    }

    fn has(&self, _: &str) -> bool {
        false
    }

    fn can_be_asked(&self) -> bool {
        false
    }
}
