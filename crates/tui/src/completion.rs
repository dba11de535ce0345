//! Completions: commands after `/`, files and more after `@`, programs and paths in a shell line.
//! The composer's text is read after each change ([`Completion::update`]), keys are handled before
//! the composer ([`Completion::key`]), and the list is returned as rows ([`Completion::rows`]).

mod at_token;
pub mod commands;
pub mod finder;
mod folder;
pub mod fuzzy;
mod list;
mod shell;

use std::ops::Range;

use parallax_screen::{Key, KeyCode, Line};

pub use commands::{ArgumentValue, CommandInfo, Completer};
pub use finder::{FileSource, Finder, FinderResults};
use finder::{FinderRequest, MAX_FOUND};
pub(crate) use folder::entries;
use fuzzy::FuzzyMatcher;
pub use list::Candidate;
use list::List;

use crate::composer::{Composer, InputMode, Position, escape_path};
use crate::keymap::{KeyCommand, Keymap, KeymapContext};
use crate::theme::Theme;

/// The result of a key in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionAction {
    /// Not used; the key belongs to the composer.
    Ignored,
    /// Used.
    Changed,
    /// The composer contains a complete command to send ([`Composer::send`]).
    Run,
}

/// The kind of completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletionKind {
    Command,
    At,
    /// A word of a shell line, only on Tab.
    Shell,
}

/// The text being completed.
#[derive(Debug, Clone)]
struct CompletionTarget {
    kind: CompletionKind,
    line: usize,
    /// The byte range of the line that a choice replaces.
    range: Range<usize>,
    query: String,
    /// The request whose result fills the list.
    generation: Option<u64>,
}

/// The completion state of the composer.
#[derive(Debug)]
pub struct Completion {
    commands: Vec<CommandInfo>,
    /// What `@` completes besides files.
    mentioned_agents: Vec<Candidate>,
    mentioned_resources: Vec<Candidate>,
    finder: Option<Finder>,
    candidates: Option<CompletionTarget>,
    list: List,
    fuzzy: FuzzyMatcher,
    /// The buffer version that was examined last.
    examined_version: Option<u64>,
}

impl Default for Completion {
    fn default() -> Self {
        Self {
            commands: Vec::new(),
            mentioned_agents: Vec::new(),
            mentioned_resources: Vec::new(),
            finder: None,
            candidates: None,
            list: List::default(),
            fuzzy: FuzzyMatcher::for_words(),
            examined_version: None,
        }
    }
}

impl Completion {
    /// Sets the slash commands.
    pub fn set_commands(&mut self, commands: Vec<CommandInfo>) {
        self.commands = commands;
        self.examined_version = None;
    }

    /// Sets the agents that `@` completes, with their descriptions.
    pub fn mention_agents(&mut self, agents: Vec<(String, String)>) {
        self.mentioned_agents = agents.into_iter().map(mention).collect();
        self.examined_version = None;
    }

    /// Sets the resources of MCP servers that `@` completes, with their descriptions.
    pub fn mention_resources(&mut self, resources: Vec<(String, String)>) {
        self.mentioned_resources = resources.into_iter().map(mention).collect();
        self.examined_version = None;
    }

    /// Sets the file finder. Its results go to [`receive`](Self::receive).
    pub fn set_finder(&mut self, finder: Finder) {
        self.finder = Some(finder);
        self.examined_version = None;
    }

    /// Whether the list is shown.
    pub fn is_open(&self) -> bool {
        self.candidates.is_some() && (!self.list.is_empty() || self.list.loading)
    }

    /// Hides the list until the text changes.
    pub fn close(&mut self) {
        self.candidates = None;
        self.list.clear();
    }

    /// Returns the list as at most `limit` rows of at most `columns` columns; empty if hidden.
    pub fn rows(&self, columns: usize, limit: usize, theme: &Theme) -> Vec<Line> {
        if self.is_open() { self.list.rows(columns, limit, theme) } else { Vec::new() }
    }

    /// Returns the candidates in words, for a screen reader; empty if the list is hidden.
    pub fn screen_reader_lines(&self, limit: usize) -> Vec<String> {
        if self.is_open() { self.list.screen_reader_lines(limit) } else { Vec::new() }
    }

    /// Updates the completions. Call it whenever the composer's text may have changed.
    pub fn update(&mut self, composer: &Composer) {
        let version = composer.buffer().version();
        if self.examined_version == Some(version) {
            return;
        }
        self.examined_version = Some(version);
        if composer.is_searching() || composer.is_from_history() || composer.is_command_mode() {
            return self.close();
        }
        if composer.mode() == InputMode::Shell {
            return self.close();
        }
        let cursor = composer.buffer().cursor();
        let line = composer.buffer().current_line();
        if let Some(token) = at_token::find_at_token(line, cursor.byte) {
            return self.set_query(cursor.line, token.range, token.query);
        }
        if cursor.line == 0
            && line.starts_with('/')
            && let Some(matches) =
                commands::matching_commands(&self.commands, line, cursor.byte, &mut self.fuzzy)
        {
            let query = line.get(matches.range.start..cursor.byte).unwrap_or("").to_owned();
            let range = matches.range;
            self.candidates = Some(CompletionTarget {
                kind: CompletionKind::Command,
                line: 0,
                range,
                query,
                generation: None,
            });
            return self.list.set(matches.candidates, false);
        }
        self.close();
    }

    fn set_query(&mut self, line: usize, range: Range<usize>, query: String) {
        let same = self.candidates.as_ref().is_some_and(|offer| {
            offer.kind == CompletionKind::At && offer.range.start == range.start
        });
        if !same {
            self.list.clear();
        }
        let question = match folder::is_path(&query) {
            true => FinderRequest::Folder(query.clone()),
            false => FinderRequest::Project(query.clone()),
        };
        let generation = self.finder.as_mut().map(|finder| finder.ask(question));
        let has_finder = generation.is_some();
        self.candidates =
            Some(CompletionTarget { kind: CompletionKind::At, line, range, query, generation });
        if !has_finder {
            let mentions = self.fitting_mentions();
            self.list.set(mentions, false);
        }
    }

    fn fitting_mentions(&mut self) -> Vec<Candidate> {
        let all: Vec<&Candidate> =
            self.mentioned_agents.iter().chain(&self.mentioned_resources).collect();
        let Some(offer) = &self.candidates else { return Vec::new() };
        let names: Vec<String> = all.iter().map(|mention| mention.label.clone()).collect();
        let best = self.fuzzy.best_matches(&names, &offer.query, MAX_FOUND, None);
        let mentions = best.into_iter().filter_map(|number| all.get(number as usize).copied());
        mentions
            .map(|mention| Candidate { exact: mention.label == offer.query, ..mention.clone() })
            .collect()
    }

    /// Handles results of the finder. Returns whether the list changed.
    pub fn receive(&mut self, found: FinderResults) -> bool {
        let Some(offer) = self.candidates.clone() else { return false };
        if offer.generation != Some(found.generation) {
            return false;
        }
        let mut candidates: Vec<Candidate> = Vec::new();
        for path in found.paths {
            let has_controls = path.contains(char::is_control);
            if has_controls && offer.kind == CompletionKind::Shell {
                // Such a path cannot be written in a shell command.
                continue;
            }
            let is_complete = !path.ends_with('/');
            let insert = match offer.kind {
                CompletionKind::Shell => shell::escape(&path),
                _ => format!("@{}", escape_path(&path)),
            };
            let exact = path == offer.query;
            candidates.push(Candidate {
                insert,
                label: if has_controls { escape_path(&path) } else { path },
                is_complete,
                exact,
                ..Candidate::default()
            });
        }
        if offer.kind == CompletionKind::At {
            candidates.extend(self.fitting_mentions());
        }
        self.list.set(candidates, !found.complete);
        true
    }

    /// Handles a key before the composer. Tab in a shell line requests completions; other keys are
    /// used only while the list is open.
    pub fn key(&mut self, key: Key, keymap: &Keymap, composer: &mut Composer) -> CompletionAction {
        if !self.is_open() {
            let asks = composer.mode() == InputMode::Shell && key == Key::plain(KeyCode::Tab);
            if asks && !composer.buffer().text().is_blank() && !composer.is_searching() {
                self.request_shell_completions(composer);
                return CompletionAction::Changed;
            }
            return CompletionAction::Ignored;
        }
        for command in keymap.commands_for(key, KeymapContext::SUGGESTIONS) {
            match command {
                KeyCommand::Cancel => self.close(),
                KeyCommand::SuggestPrevious => self.list.step(false),
                KeyCommand::SuggestNext => self.list.step(true),
                KeyCommand::SuggestAccept => {
                    return self.accept(keymap.is_bound(key, KeyCommand::Submit), composer);
                }
                _ => continue,
            }
            return CompletionAction::Changed;
        }
        CompletionAction::Ignored
    }

    fn request_shell_completions(&mut self, composer: &Composer) {
        let cursor = composer.buffer().cursor();
        let word = shell::word(composer.buffer().current_line(), cursor.byte);
        let question = match word.kind {
            shell::WordKind::Program if !word.text.contains('/') => {
                FinderRequest::Program(word.text.clone())
            }
            shell::WordKind::Argument(known) if !known.is_empty() => {
                let matches = known.iter().filter(|known| known.starts_with(&word.text));
                let candidates: Vec<Candidate> = matches
                    .map(|known| Candidate {
                        insert: (*known).to_owned(),
                        label: (*known).to_owned(),
                        is_complete: true,
                        ..Candidate::default()
                    })
                    .collect();
                if !candidates.is_empty() {
                    self.candidates = Some(CompletionTarget {
                        kind: CompletionKind::Shell,
                        line: cursor.line,
                        range: word.range,
                        query: word.text,
                        generation: None,
                    });
                    return self.list.set(candidates, false);
                }
                FinderRequest::Folder(word.text.clone())
            }
            _ => FinderRequest::Folder(word.text.clone()),
        };
        let generation = self.finder.as_mut().map(|finder| finder.ask(question));
        self.candidates = Some(CompletionTarget {
            kind: CompletionKind::Shell,
            line: cursor.line,
            range: word.range,
            query: word.text,
            generation,
        });
        self.list.clear();
    }

    fn accept(&mut self, enter: bool, composer: &mut Composer) -> CompletionAction {
        let chosen = if enter { self.list.selected() } else { self.list.first_or_selected() };
        let (Some(offer), Some(chosen)) = (self.candidates.clone(), chosen.cloned()) else {
            // The search is still running, or only options could follow; do not hold back the key.
            self.close();
            return CompletionAction::Ignored;
        };
        if enter && chosen.exact && !self.list.was_moved() {
            // The text is complete already.
            self.close();
            return CompletionAction::Ignored;
        }
        let runs = enter && chosen.runs && offer.kind == CompletionKind::Command;
        let buffer = composer.buffer_mut();
        let line = buffer.text().line(offer.line);
        let spaced = line.get(offer.range.end..).is_some_and(|rest| rest.starts_with(' '));
        let space = if chosen.is_complete && !runs && !spaced { " " } else { "" };
        let position = |byte| Position::new(offer.line, byte);
        let range = position(offer.range.start)..position(offer.range.end);
        buffer.replace(range, &format!("{}{space}", chosen.insert));
        if chosen.is_complete && spaced {
            buffer.move_right();
        }
        self.close();
        if runs {
            return CompletionAction::Run;
        }
        // Entries of a directory, or subcommands, can follow.
        self.update(composer);
        if self.candidates.as_ref().is_some_and(|offer| offer.generation.is_some()) {
            // The list stays open while they are searched for.
            self.list.loading = true;
        }
        CompletionAction::Changed
    }
}

fn mention((name, description): (String, String)) -> Candidate {
    Candidate {
        insert: format!("@{}", escape_path(&name)),
        label: name,
        description,
        is_complete: true,
        ..Candidate::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;
    use crate::composer::ComposerAction;

    struct Files;

    impl FileSource for Files {
        fn list(&self, piece: &mut dyn FnMut(Vec<String>) -> bool) {
            let paths = ["src/", "src/main.rs", "src/a file.rs", "readme.md"];
            piece(paths.map(str::to_owned).to_vec());
        }
    }

    struct Bench {
        composer: Composer,
        completion: Completion,
        keymap: Keymap,
        found: Receiver<FinderResults>,
    }

    impl Bench {
        fn new() -> Self {
            let command = |name: &str, auto_execute, subcommands| CommandInfo {
                name: name.to_owned(),
                auto_execute,
                subcommands,
                ..CommandInfo::default()
            };
            let (sender, found) = channel();
            let mut completion = Completion::default();
            let deliver = move |found| drop(sender.send(found));
            completion.set_finder(Finder::start("/".into(), Arc::new(Files), deliver).unwrap());
            completion.mention_agents(vec![("reviewer".to_owned(), "an agent".to_owned())]);
            completion.set_commands(vec![
                command("help", true, vec![]),
                command(
                    "chat",
                    false,
                    vec![command("list", true, vec![]), command("save", false, vec![])],
                ),
                CommandInfo {
                    completer: Some(Arc::new(|typed: &str| {
                        let value = "--force".to_owned();
                        let fits = value.starts_with(typed);
                        let argument = ArgumentValue { value, ..ArgumentValue::default() };
                        fits.then_some(argument).into_iter().collect()
                    })),
                    ..command("undo", false, vec![])
                },
            ]);
            let keymap = Keymap::load(crate::keymap::Platform::Linux, "");
            Self { composer: Composer::new(), completion, keymap, found }
        }

        /// Types text; `\t`, `\n`, `\u{1b}` and `↓` are keys. Returns the last action of the
        /// composer, if any.
        fn keys(&mut self, text: &str) -> Option<ComposerAction> {
            let mut last = None;
            for char in text.chars() {
                let key = Key::plain(match char {
                    '\t' => KeyCode::Tab,
                    '\n' => KeyCode::Enter,
                    '\u{1b}' => KeyCode::Escape,
                    '↓' => KeyCode::Down,
                    char => KeyCode::Char(char),
                });
                last = match self.completion.key(key, &self.keymap, &mut self.composer) {
                    CompletionAction::Ignored => Some(self.composer.key(key, &self.keymap)),
                    CompletionAction::Run => Some(self.composer.send()),
                    CompletionAction::Changed => None,
                };
                self.completion.update(&self.composer);
                self.pause();
            }
            last
        }

        fn pause(&mut self) {
            let Some(requested) =
                self.completion.candidates.as_ref().and_then(|offer| offer.generation)
            else {
                return;
            };
            loop {
                let found = self.found.recv_timeout(Duration::from_secs(20)).unwrap();
                let done = found.generation == requested && found.complete;
                self.completion.receive(found);
                if done {
                    return;
                }
            }
        }

        fn labels(&self) -> Vec<&str> {
            let candidates = self.completion.list.candidates().iter();
            candidates.map(|candidate| candidate.label.as_str()).collect()
        }

        fn text(&self) -> String {
            self.composer.buffer().text().to_string()
        }
    }

    fn sent(action: Option<ComposerAction>) -> String {
        match action {
            Some(ComposerAction::Submit(submission)) => submission.text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn completed_file_is_inserted_into_the_text() {
        let mut bench = Bench::new();
        bench.keys("see @fil");
        assert_eq!(bench.labels(), ["src/a file.rs"]);
        bench.keys("\t");
        assert_eq!(bench.text(), "see @src/a\\ file.rs ");
        assert!(!bench.completion.is_open());
        bench.keys("@sr");
        assert_eq!(bench.labels()[0], "src/");
        bench.keys("\t");
        assert_eq!(bench.text(), "see @src/a\\ file.rs @src/");
        assert!(bench.completion.is_open(), "a folder's entries follow");
        bench.keys(" @rev");
        assert_eq!(bench.labels(), ["reviewer"]);
    }

    #[test]
    fn enter_runs_a_command_without_arguments() {
        let mut bench = Bench::new();
        assert_eq!(sent(bench.keys("/he\n")), "/help");
        assert_eq!(sent(bench.keys("/help\n")), "/help");
        bench.keys("/ch\n");
        assert_eq!(bench.text(), "/chat ");
        assert_eq!(bench.labels(), ["list", "save"]);
        assert_eq!(sent(bench.keys("↓↓\n")), "/chat list");
        assert_eq!(sent(bench.keys("/chat\n")), "/chat");
    }

    #[test]
    fn completion_option_is_inserted_only_when_chosen() {
        let mut bench = Bench::new();
        bench.keys("/un\n");
        assert_eq!((bench.text().as_str(), bench.labels()), ("/undo ", vec!["--force"]));
        assert_eq!(sent(bench.keys("\n")).trim(), "/undo");
        bench.keys("/undo ↓\n");
        assert_eq!(bench.text(), "/undo --force ");
        bench.composer.clear();
        bench.keys("/undo \t");
        assert_eq!(bench.text(), "/undo --force ");
    }

    #[test]
    fn escape_closes_the_list_first() {
        let mut bench = Bench::new();
        bench.keys("/h");
        assert!(bench.completion.is_open());
        assert_eq!(bench.keys("\u{1b}"), None);
        assert!(!bench.completion.is_open());
        assert_eq!(bench.keys("\u{1b}"), Some(ComposerAction::Escape));
        bench.keys("e");
        assert!(bench.completion.is_open());
    }

    #[test]
    fn recalled_text_opens_no_completion_list() {
        let mut bench = Bench::new();
        bench.composer.set_history(vec!["/help".to_owned()], Vec::new());
        let up = Key::plain(KeyCode::Up);
        bench.composer.key(up, &bench.keymap);
        bench.completion.update(&bench.composer);
        assert_eq!((bench.text().as_str(), bench.completion.is_open()), ("/help", false));
    }

    #[test]
    fn tab_completes_in_a_shell_line() {
        let mut bench = Bench::new();
        bench.keys("!git sta\t");
        assert_eq!(bench.labels(), ["stash", "status"]);
        bench.keys("↓\t");
        assert_eq!(bench.text(), "git status ");
        bench.keys("/et\t");
        assert!(bench.labels().contains(&"/etc/"), "{:?}", bench.labels());
    }
}
