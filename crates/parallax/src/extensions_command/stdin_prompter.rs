//! Asks questions in the terminal, or reads piped answers, one line per question. At the end of the
//! input, the answer is no.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use parallax_extensions::ExtensionSetting;
use parallax_headless::one_line;
use parallax_protocol::event::Failure;

use super::consent_refused_failure;
use super::prompter::Prompter;
use crate::hidden_input::HiddenInput;

/// Maximum size of an answer in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Asks the user or program at the other end of stdin.
pub(crate) struct StdinPrompter {
    is_terminal: bool,
    /// Whether the input has ended.
    input_ended: bool,
    /// Values of settings that need no question.
    provided: Vec<(String, String)>,
}

impl StdinPrompter {
    /// Creates it with the values of settings, by variable, that a file provides.
    pub(crate) fn new(provided: Vec<(String, String)>) -> Self {
        Self { is_terminal: io::stdin().is_terminal(), input_ended: false, provided }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut stdin = io::stdin().lock();
        loop {
            let buffer = stdin.fill_buf().ok()?;
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let consumed = end.map_or(buffer.len(), |end| end + 1);
            line.extend_from_slice(buffer.get(..consumed).unwrap_or_default());
            stdin.consume(consumed);
            if end.is_some() || line.len() > MAX_BYTES {
                break;
            }
        }
        self.input_ended = line.is_empty();
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }
}

impl Prompter for StdinPrompter {
    fn has(&self, variable: &str) -> bool {
        self.provided.iter().any(|(name, _)| name == variable)
    }

    fn can_be_asked(&self) -> bool {
        !self.input_ended
    }

    fn print(&mut self, text: &str) {
        // A failed write to stderr cannot be reported.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn confirm(&mut self, text: &str, consent: bool) -> Result<(), Failure> {
        self.print(text);
        if consent {
            return Ok(());
        }
        self.print("Do you want to continue? [Y/n]: ");
        match self.line() {
            Some(answer) => match answer.trim().to_lowercase().as_str() {
                "" | "y" | "yes" => Ok(()),
                _ => Err(consent_refused_failure("Installation aborted. Nothing was changed.")),
            },
            None => Err(consent_refused_failure(
                "Installation aborted: no answer on stdin. Use `--consent` to agree without a \
                 prompt.",
            )),
        }
    }

    fn value(&mut self, extension: &str, setting: &ExtensionSetting) -> Result<String, Failure> {
        let provided = self.provided.iter().find(|(name, _)| *name == setting.variable);
        if let Some((_, value)) = provided {
            return Ok(value.trim().to_owned());
        }
        let name = one_line(&setting.name);
        self.print(&format!("{extension}: {name}\n"));
        if !setting.description.is_empty() {
            self.print(&format!("  {}\n", one_line(&setting.description)));
        }
        self.print(&format!("  {} = ", setting.variable));
        let hidden = setting.sensitive && self.is_terminal;
        let line = match hidden {
            true => {
                let _silence = HiddenInput::begin();
                let line = self.line();
                self.print("\n");
                line
            }
            false => self.line(),
        };
        line.map(|line| line.trim().to_owned()).ok_or_else(|| {
            consent_refused_failure(&format!("No value for `{}` on stdin", setting.variable))
        })
    }
}
