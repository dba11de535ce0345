//! The file finder thread. It caches the project's file list and answers the latest request. The
//! interface never waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use parallax_commands::FileSearch;

use super::folder;
use super::fuzzy::FuzzyMatcher;
use super::shell;

/// Maximum number of results.
pub const MAX_FOUND: usize = 24;
/// How long a file list is valid.
const CACHE_TTL: Duration = Duration::from_secs(30);
/// How long without a result until the list shows that the search continues.
const TIMEOUT: Duration = Duration::from_millis(200);
/// How often a growing list is searched.
const INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of files of a project.
const MAX_PATHS: usize = 500_000;

/// Lists the files of the project.
pub trait FileSource: Send + Sync {
    /// Passes paths in batches as they are found: relative to the project or absolute, directories
    /// with a trailing `/`, without ignored files. Stops when `piece` returns `false`. Runs on its
    /// own thread.
    fn list(&self, piece: &mut dyn FnMut(Vec<String>) -> bool);
    /// Returns the names of files that the model has received already.
    fn known_names(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns how the files are searched.
    fn search(&self) -> FileSearch {
        FileSearch::default()
    }
}

/// A search request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinderRequest {
    /// Project files that match.
    Project(String),
    /// Entries of a directory with this prefix.
    Folder(String),
    /// Programs with this prefix.
    Program(String),
}

/// The results of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinderResults {
    /// The number of the request.
    pub generation: u64,
    /// The paths, best first.
    pub paths: Vec<String>,
    /// Whether no more results follow.
    pub complete: bool,
}

enum FinderMessage {
    Request(u64, FinderRequest),
    Piece(Vec<String>),
    Listed,
    Stop,
}

/// The handle of the finder thread, which ends when it is dropped.
#[derive(Debug)]
pub struct Finder {
    sender: Sender<FinderMessage>,
    generation: u64,
}

impl Drop for Finder {
    fn drop(&mut self) {
        // An error means that the thread has ended.
        let _ = self.sender.send(FinderMessage::Stop);
    }
}

impl Finder {
    /// Starts the thread. Relative paths start in `root`. `delivery` is called on the thread with
    /// the results.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(
        root: PathBuf,
        source: Arc<dyn FileSource>,
        delivery: impl Fn(FinderResults) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let own = sender.clone();
        let search = source.search();
        std::thread::Builder::new().name("find-files".to_owned()).spawn(move || {
            Worker {
                root,
                source,
                delivery,
                sender: own,
                paths: Vec::new(),
                listed: None,
                next_list: None,
                fuzzy: if search.is_fuzzy {
                    FuzzyMatcher::paths()
                } else {
                    FuzzyMatcher::for_paths()
                },
                search,
                question: None,
                last: (String::new(), Vec::new()),
            }
            .run(&receiver);
        })?;
        Ok(Self { sender, generation: 0 })
    }

    /// Sends a request and replaces an earlier one that is not answered yet. Returns the number
    /// that the answer will carry.
    pub fn ask(&mut self, request: FinderRequest) -> u64 {
        self.generation += 1;
        let _ = self.sender.send(FinderMessage::Request(self.generation, request));
        self.generation
    }
}

struct PendingFind {
    generation: u64,
    question: FinderRequest,
    at: Instant,
    /// When it was last answered, possibly with partial results.
    answered: Option<Instant>,
}

struct Worker<D> {
    root: PathBuf,
    source: Arc<dyn FileSource>,
    delivery: D,
    sender: Sender<FinderMessage>,
    paths: Vec<String>,
    /// When the list was completed.
    listed: Option<Instant>,
    /// The next list while it is being built.
    next_list: Option<Vec<String>>,
    fuzzy: FuzzyMatcher,
    search: FileSearch,
    question: Option<PendingFind>,
    /// The last query and the indexes of its matches.
    last: (String, Vec<u32>),
}

impl<D: Fn(FinderResults)> Worker<D> {
    fn run(mut self, receiver: &Receiver<FinderMessage>) {
        loop {
            let message = match self.wait() {
                Some(wait) => match receiver.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Ok(message) => Some(message),
                },
                None => match receiver.recv() {
                    Err(_) => return,
                    Ok(message) => Some(message),
                },
            };
            // Handle all pending messages before answering.
            for message in message.into_iter().chain(receiver.try_iter()) {
                if !self.handle(message) {
                    return;
                }
            }
            self.answer();
        }
    }

    /// Returns how long to wait for the next message; `None` means without limit.
    fn wait(&self) -> Option<Duration> {
        let question = self.question.as_ref()?;
        self.next_list.as_ref()?;
        Some(match question.answered {
            None => TIMEOUT.saturating_sub(question.at.elapsed()),
            Some(at) => INTERVAL.saturating_sub(at.elapsed()).max(Duration::from_millis(1)),
        })
    }

    fn handle(&mut self, message: FinderMessage) -> bool {
        match message {
            FinderMessage::Stop => return false,
            FinderMessage::Request(generation, request) => {
                if matches!(request, FinderRequest::Project(_)) {
                    self.refresh();
                }
                self.question = Some(PendingFind {
                    generation,
                    question: request,
                    at: Instant::now(),
                    answered: None,
                });
            }
            FinderMessage::Piece(paths) => {
                if let Some(growing) = &mut self.next_list {
                    growing.extend(paths);
                }
                // The first list is searched while it grows.
                if self.listed.is_none()
                    && let Some(next_list) = &mut self.next_list
                {
                    self.paths.append(next_list);
                    self.last.1.clear();
                }
            }
            FinderMessage::Listed => {
                let growing = self.next_list.take().unwrap_or_default();
                if self.listed.is_some() {
                    self.paths = growing;
                } else {
                    self.paths.extend(growing);
                }
                self.listed = Some(Instant::now());
                self.last.1.clear();
            }
        }
        true
    }

    /// Starts building a list if there is none or it is too old.
    fn refresh(&mut self) {
        let fresh = self.listed.is_some_and(|at| at.elapsed() < CACHE_TTL);
        if fresh || self.next_list.is_some() {
            return;
        }
        self.next_list = Some(Vec::new());
        let source = Arc::clone(&self.source);
        let sender = self.sender.clone();
        let spawned = std::thread::Builder::new().name("list-files".to_owned()).spawn(move || {
            let mut count = 0;
            source.list(&mut |mut paths| {
                paths.truncate(MAX_PATHS - count);
                count += paths.len();
                sender.send(FinderMessage::Piece(paths)).is_ok() && count < MAX_PATHS
            });
            let _ = sender.send(FinderMessage::Listed);
        });
        if spawned.is_err() {
            self.next_list = None;
        }
    }

    fn answer(&mut self) {
        let Some(open_question) = &self.question else { return };
        let is_list_growing = self.next_list.is_some();
        // Wait before searching a growing list again.
        if is_list_growing && open_question.answered.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        let (generation, question) = (open_question.generation, open_question.question.clone());
        let waited = open_question.at.elapsed() >= TIMEOUT;
        let (paths, complete) = match &question {
            // The list has only the top level; deeper entries are read from the directory.
            FinderRequest::Project(query) if !self.search.recursive && query.contains('/') => {
                (folder::entries(&self.root, query, MAX_FOUND), true)
            }
            FinderRequest::Project(query) => (self.project(query), !is_list_growing),
            FinderRequest::Folder(query) => (folder::entries(&self.root, query, MAX_FOUND), true),
            FinderRequest::Program(prefix) => {
                let path = std::env::var("PATH").unwrap_or_default();
                (shell::programs(prefix, &path, MAX_FOUND), true)
            }
        };
        // An empty result is reported only if the search takes long.
        if paths.is_empty() && !complete && !waited {
            return;
        }
        (self.delivery)(FinderResults { generation, paths, complete });
        if complete {
            self.question = None;
        } else if let Some(open_question) = &mut self.question {
            open_question.answered = Some(Instant::now());
        }
    }

    fn project(&mut self, query: &str) -> Vec<String> {
        let numbers = if query.is_empty() {
            sort_by_depth(&self.paths)
        } else {
            let (before, within) = &mut self.last;
            // A longer query matches only what the shorter one matches.
            let narrows = !before.is_empty() && query.starts_with(before.as_str());
            if !narrows || is_case_sensitive(before) != is_case_sensitive(query) {
                within.clear();
            }
            query.clone_into(before);
            self.fuzzy.best_matches(&self.paths, query, MAX_FOUND, Some(within))
        };
        let paths = numbers.into_iter().filter_map(|number| self.paths.get(number as usize));
        let mut paths: Vec<String> = paths.cloned().collect();
        put_known_last(&mut paths, query, &self.source.known_names());
        paths
    }
}

/// Puts files that the model has received already behind the others whose names begin with the
/// query.
fn put_known_last(paths: &mut [String], query: &str, known: &[String]) {
    let name = |path: &str| path.trim_end_matches('/').rsplit('/').next().map(str::to_lowercase);
    let query = query.to_lowercase();
    let begins = |path: &String| name(path).is_some_and(|name| name.starts_with(&query));
    let count = paths.iter().take_while(|path| begins(path)).count();
    let is_known = |path: &String| known.iter().any(|it| name(path) == Some(it.to_lowercase()));
    // A stable sort keeps the order otherwise.
    paths.get_mut(..count).unwrap_or_default().sort_by_key(is_known);
}

/// Whether the query is case-sensitive.
fn is_case_sensitive(query: &str) -> bool {
    query.chars().any(char::is_uppercase)
}

/// Orders paths by depth, directories before files.
fn sort_by_depth(paths: &[String]) -> Vec<u32> {
    let depth = |path: &str| path.trim_end_matches('/').matches('/').count();
    let mut numbers: Vec<u32> = (0..u32::try_from(paths.len()).unwrap_or(0)).collect();
    let key = |number: &u32| {
        let path = paths.get(*number as usize).map_or("", String::as_str);
        (depth(path), !path.ends_with('/'), path)
    };
    if numbers.len() > MAX_FOUND {
        numbers.select_nth_unstable_by(MAX_FOUND, |one, other| key(one).cmp(&key(other)));
        numbers.truncate(MAX_FOUND);
    }
    numbers.sort_by(|one, other| key(one).cmp(&key(other)));
    numbers
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn known_file_comes_behind_others_whose_names_begin_with_the_query() {
        let order = |query: &str| {
            let mut paths = ["GEMINI.md", "src/greet.py", "src/agent.rs"].map(str::to_owned);
            put_known_last(&mut paths, query, &["GEMINI.md".to_owned()]);
            paths
        };
        assert_eq!(order("g"), ["src/greet.py", "GEMINI.md", "src/agent.rs"]);
        assert_eq!(order("ge"), ["GEMINI.md", "src/greet.py", "src/agent.rs"]);
        assert_eq!(order(""), ["src/greet.py", "src/agent.rs", "GEMINI.md"]);
    }

    struct PiecewiseFileSource {
        pieces: Mutex<Vec<Vec<String>>>,
        lists: AtomicUsize,
        go: Mutex<Option<Receiver<()>>>,
    }

    impl FileSource for PiecewiseFileSource {
        fn list(&self, piece: &mut dyn FnMut(Vec<String>) -> bool) {
            self.lists.fetch_add(1, Ordering::SeqCst);
            for paths in self.pieces.lock().unwrap().iter() {
                if !piece(paths.clone()) {
                    return;
                }
                if let Some(go) = &*self.go.lock().unwrap() {
                    let _ = go.recv();
                }
            }
        }
    }

    fn finder(
        pieces: &[&[&str]],
        go: Option<Receiver<()>>,
    ) -> (Finder, Receiver<FinderResults>, Arc<PiecewiseFileSource>) {
        let pieces =
            pieces.iter().map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
        let source = Arc::new(PiecewiseFileSource {
            pieces: Mutex::new(pieces.collect()),
            lists: AtomicUsize::new(0),
            go: Mutex::new(go),
        });
        let (sender, receiver) = channel();
        let own = Arc::clone(&source) as Arc<dyn FileSource>;
        let finder = Finder::start(PathBuf::from("/"), own, move |found| drop(sender.send(found)));
        (finder.unwrap(), receiver, source)
    }

    fn complete(found: &Receiver<FinderResults>, generation: u64) -> Vec<String> {
        loop {
            let found = found.recv_timeout(Duration::from_secs(20)).unwrap();
            if found.generation == generation && found.complete {
                return found.paths;
            }
        }
    }

    #[test]
    fn finder_requests_share_one_list() {
        let (mut finder, found, source) =
            finder(&[&["src/", "src/main.rs"], &["a/deep/file.md", "readme.md"]], None);
        let first = finder.ask(FinderRequest::Project("mai".to_owned()));
        assert_eq!(complete(&found, first), ["src/main.rs"]);
        let second = finder.ask(FinderRequest::Project("main.rs".to_owned()));
        assert_eq!(complete(&found, second), ["src/main.rs"]);
        let third = finder.ask(FinderRequest::Project(String::new()));
        assert_eq!(complete(&found, third), ["src/", "readme.md", "src/main.rs", "a/deep/file.md"]);
        let fourth = finder.ask(FinderRequest::Project("rdme".to_owned()));
        assert_eq!(complete(&found, fourth), ["readme.md"]);
        assert_eq!(source.lists.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn growing_file_list_is_searchable_and_slowness_is_reported() {
        let (go, wait) = channel();
        let (mut finder, found, _source) = finder(&[&["one.rs"], &["one/two.rs"]], Some(wait));
        let answer = finder.ask(FinderRequest::Project("one".to_owned()));
        let early = found.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((early.paths, early.complete), (vec!["one.rs".to_owned()], false));
        let none = finder.ask(FinderRequest::Project("zzz".to_owned()));
        let slow = found.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!((slow.generation, slow.paths.len(), slow.complete), (none, 0, false));
        drop(go);
        let _ = answer;
        assert_eq!(complete(&found, none), [] as [String; 0]);
    }
}
