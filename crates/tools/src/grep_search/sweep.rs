//! The first pass: finds the files with matches and their line numbers.
//!
//! The result contains the first matches in path order, independent of thread timing: paths behind
//! the last one that can be shown are not searched.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkMatch};
use parallax_files::{
    Access, AllowedPath, DirEntry, PathError, TextEncoding, WalkOptions, WalkState, Workspace,
    decode, looks_binary, walk,
};

use super::GrepQuery;
use super::filter::EXCLUDED_FOLDERS;
use super::skipped::SkipSummary;
use crate::kind::is_known_binary;
use crate::search_scope::StopSignal;

/// Maximum length of a line in bytes; the search of a file stops at a longer one.
pub(super) const MAX_LINE: usize = 8 * 1024 * 1024;

/// A file with matches.
#[derive(Debug)]
pub(super) struct MatchedFile {
    /// The confined file.
    pub(super) file: AllowedPath,
    /// The line numbers of the matches, ascending, from 1.
    pub(super) hits: Vec<u64>,
    /// Whether the file is not UTF-8 and must be decoded first.
    pub(super) decoded: bool,
}

impl MatchedFile {
    pub(super) fn path(&self) -> &Path {
        self.file.display_path()
    }
}

/// Searches all files below `roots`; returns at most `wanted.total` matches in the first paths.
pub(super) fn search_tree(
    workspace: &Workspace,
    roots: &[PathBuf],
    query: &GrepQuery,
    stop: &StopSignal,
) -> (Vec<MatchedFile>, SkipSummary) {
    let mut exclude_directories = Vec::new();
    if !query.no_ignore {
        exclude_directories = EXCLUDED_FOLDERS.map(str::to_owned).to_vec();
    }
    let passed = Arc::default();
    let options = WalkOptions {
        no_ignore: query.no_ignore,
        exclude_folders: exclude_directories,
        skipped: Some(Arc::clone(&passed)),
        ..WalkOptions::default()
    };
    let skipped = Mutex::new(SkipSummary::default());
    let found = CollectedMatches::new(query.total);
    walk(workspace, roots, &options).build_parallel().run(|| {
        let mut worker = SearchWorker {
            roots,
            query,
            stop,
            workspace,
            matches: &found,
            skipped: &skipped,
            searcher: searcher(0, 0),
            // Its caches belong to one thread.
            matcher: query.matcher.clone(),
            frontier: None,
            generation: 0,
        };
        Box::new(move |entry| match entry {
            _ if stop.is_set() => WalkState::Quit,
            Ok(entry) => worker.visit(&entry),
            Err(_) => WalkState::Continue,
        })
    });
    let mut skipped = skipped.into_inner().unwrap_or_else(PoisonError::into_inner);
    skipped.skipped_entries =
        std::mem::take(&mut *passed.lock().unwrap_or_else(PoisonError::into_inner));
    (found.into_hits(), skipped)
}

/// Creates a searcher with bounded memory.
pub(super) fn searcher(before: usize, after: usize) -> Searcher {
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::none())
        .memory_map(MmapChoice::never())
        .heap_limit(Some(MAX_LINE))
        .line_number(true)
        .before_context(before)
        .after_context(after)
        .build()
}

/// The state of one walker thread.
struct SearchWorker<'a> {
    roots: &'a [PathBuf],
    query: &'a GrepQuery,
    stop: &'a StopSignal,
    workspace: &'a Workspace,
    matches: &'a CollectedMatches,
    skipped: &'a Mutex<SkipSummary>,
    searcher: Searcher,
    matcher: RegexMatcher,
    /// The last path that can still be shown, as last seen by this thread.
    frontier: Option<Arc<Path>>,
    generation: u64,
}

impl SearchWorker<'_> {
    fn visit(&mut self, entry: &DirEntry) -> WalkState {
        let Some(kind) = entry.file_type() else { return WalkState::Continue };
        self.matches.refresh(&mut self.generation, &mut self.frontier);
        let path = entry.path();
        if self.frontier.as_deref().is_some_and(|last| path > last) {
            // All paths in a directory sort after the directory itself.
            return if kind.is_dir() { WalkState::Skip } else { WalkState::Continue };
        }
        if entry.depth() > 0
            && self.workspace.is_protected_from_search(entry.file_name(), kind.is_dir())
        {
            self.skip(|skipped| skipped.protected += 1);
            return if kind.is_dir() { WalkState::Skip } else { WalkState::Continue };
        }
        // Links are not followed; pipes and devices are never opened.
        if kind.is_symlink() && self.is_searched(entry) {
            self.skip_link(path);
        }
        if !kind.is_file() || !self.is_searched(entry) {
            return WalkState::Continue;
        }
        let (hits, decoded) = self.search(entry);
        if !hits.is_empty()
            // Checked last because it is expensive: tools must be allowed to read the file.
            && let Ok(file) = self.workspace.confine(path, Access::Search)
        {
            self.matches.add(path, MatchedFile { file, hits, decoded });
        }
        WalkState::Continue
    }

    /// Records a link to something that is not found below the searched directories.
    fn skip_link(&self, link: &Path) {
        match self.workspace.confine(link, Access::Search) {
            Ok(target) if !self.roots.iter().any(|root| target.path().starts_with(root)) => {
                self.skip(|skipped| skipped.link(link));
            }
            Err(PathError::Outside { .. }) if link.exists() => {
                self.skip(|skipped| skipped.add_outside_link(link));
            }
            _ => {}
        }
    }

    fn is_searched(&self, entry: &DirEntry) -> bool {
        // The file was named explicitly.
        if entry.depth() == 0 {
            return true;
        }
        match &self.query.include {
            Some(include) => self
                .roots
                .iter()
                .filter_map(|root| entry.path().strip_prefix(root).ok())
                .any(|relative| include.includes(relative)),
            None => true,
        }
    }

    /// Returns the line numbers of the matches (none if the file cannot be read) and whether they
    /// refer to the decoded text.
    fn search(&mut self, entry: &DirEntry) -> (Vec<u64>, bool) {
        let path = entry.path();
        let mut sink = LineNumbers { query: self.query, hits: Vec::new() };
        let mut head = Vec::new();
        let opened = open(path).and_then(|mut file| {
            file.by_ref().take(HEAD).read_to_end(&mut head)?;
            Ok(file)
        });
        let Ok(file) = opened else {
            self.skip(|skipped| skipped.unreadable += 1);
            return (Vec::new(), false);
        };
        if looks_binary(&head) {
            // Names of images and archives found by the walk would only waste space.
            let is_expected = entry.depth() > 0 && is_known_binary(path);
            self.skip(|skipped| match is_expected {
                true => skipped.media += 1,
                false => skipped.add_binary(path),
            });
            return (Vec::new(), false);
        }
        let is_wide = TextEncoding::from_byte_order_mark(&head)
            .is_some_and(|(encoding, _)| encoding != TextEncoding::Utf8);
        let mut file = EncodingReader {
            file: head.as_slice().chain(file),
            stop: self.stop,
            utf8: Utf8Validator::default(),
        };
        let searched = self.searcher.search_reader(&self.matcher, &mut file, &mut sink);
        // A file that is not read to its end has enough matches, but in another encoding they may
        // be wrong.
        if (file.utf8.is_broken() || is_wide)
            && let Some(text) = decode_file(path, self.stop)
        {
            sink.hits.clear();
            let _ = self.searcher.search_slice(&self.matcher, text.as_bytes(), &mut sink);
            return (sink.hits, true);
        }
        // Matches found before an error are kept.
        if searched.is_err() && !self.stop.is_set() {
            self.skip(|skipped| skipped.record_partial(path));
        }
        (sink.hits, false)
    }

    fn skip(&self, note: impl FnOnce(&mut SkipSummary)) {
        note(&mut self.skipped.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Number of bytes that decide whether a file is text.
const HEAD: u64 = 4096;
/// Larger files in other encodings are searched undecoded.
const MAX_DECODED: u64 = 32 * 1024 * 1024;

/// Returns the text of a file as `read_file` decodes it; `None` if it is UTF-8, valid or not, or
/// too large.
pub(super) fn decode_file(path: &Path, stop: &StopSignal) -> Option<String> {
    let mut bytes = Vec::new();
    let file = CancellableReader { file: open(path).ok()?, stop };
    file.take(MAX_DECODED + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > MAX_DECODED {
        return None;
    }
    let decoded = decode(&bytes);
    (decoded.encoding != TextEncoding::Utf8).then_some(decoded.text)
}

/// Checks whether the bytes are UTF-8.
#[derive(Default)]
struct Utf8Validator {
    /// The incomplete character at the end of the last chunk.
    incomplete: Vec<u8>,
    broken: bool,
}

impl Utf8Validator {
    fn feed(&mut self, piece: &[u8]) {
        if self.broken || (self.incomplete.is_empty() && piece.is_ascii()) {
            return;
        }
        let joined;
        let bytes = match self.incomplete.is_empty() {
            true => piece,
            false => {
                joined = [std::mem::take(&mut self.incomplete).as_slice(), piece].concat();
                &joined
            }
        };
        if let Err(error) = std::str::from_utf8(bytes) {
            match error.error_len() {
                None => {
                    self.incomplete = bytes.get(error.valid_up_to()..).unwrap_or_default().to_vec()
                }
                Some(_) => self.broken = true,
            }
        }
    }

    fn is_broken(&self) -> bool {
        self.broken || !self.incomplete.is_empty()
    }
}

/// A reader that ends when the search is stopped, and that checks the encoding.
struct EncodingReader<'a, R> {
    file: R,
    stop: &'a StopSignal,
    utf8: Utf8Validator,
}

impl<R: Read> Read for EncodingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_set() {
            return Err(io::Error::other("stopped"));
        }
        let count = self.file.read(buffer)?;
        self.utf8.feed(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// Opens a file without blocking on a pipe and without following a link.
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or(0);
    File::options().read(true).custom_flags(flags).open(path)
}

/// A reader that ends when the search is stopped.
pub(super) struct CancellableReader<'a> {
    pub(super) file: File,
    pub(super) stop: &'a StopSignal,
}

impl Read for CancellableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_set() {
            return Err(io::Error::other("stopped"));
        }
        self.file.read(buffer)
    }
}

/// Collects the line numbers of matches.
struct LineNumbers<'a> {
    query: &'a GrepQuery,
    hits: Vec<u64>,
}

impl Sink for LineNumbers<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, hit: &SinkMatch<'_>) -> io::Result<bool> {
        let excluded = self
            .query
            .exclude
            .as_ref()
            .is_some_and(|exclude| exclude.is_match(hit.bytes()).unwrap_or(false));
        if !excluded {
            self.hits.push(hit.line_number().unwrap_or(0));
        }
        Ok((self.hits.len() as u64) < self.query.per_file)
    }
}

/// The first matches in path order, from all threads.
struct CollectedMatches {
    total: u64,
    files: Mutex<SearchedFiles>,
    /// Incremented at each change to the frontier, so that threads can detect changes without a
    /// lock.
    generation: AtomicU64,
}

#[derive(Default)]
struct SearchedFiles {
    by_path: BTreeMap<PathBuf, MatchedFile>,
    count: u64,
    frontier: Option<Arc<Path>>,
}

impl CollectedMatches {
    fn new(total: u64) -> Self {
        Self { total, files: Mutex::default(), generation: AtomicU64::new(0) }
    }

    fn refresh(&self, generation: &mut u64, frontier: &mut Option<Arc<Path>>) {
        let current = self.generation.load(Ordering::Acquire);
        if current != *generation {
            *generation = current;
            let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            frontier.clone_from(&files.frontier);
        }
    }

    fn add(&self, path: &Path, hits: MatchedFile) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let count = hits.hits.len() as u64;
        // Workspace directories may be nested.
        if files.by_path.insert(path.to_path_buf(), hits).is_none() {
            files.count += count;
        }
        let mut changed = false;
        while let Some(last) = files.by_path.last_entry() {
            let last_count = last.get().hits.len() as u64;
            if files.count - last_count < self.total {
                break;
            }
            files.by_path.pop_last();
            files.count -= last_count;
            changed = true;
        }
        if files.count >= self.total && (changed || files.frontier.is_none()) {
            files.frontier = files.by_path.last_key_value().map(|(path, _)| Arc::from(&**path));
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    fn into_hits(self) -> Vec<MatchedFile> {
        let files = self.files.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut remaining = self.total;
        let mut all: Vec<MatchedFile> = files.by_path.into_values().collect();
        for file in &mut all {
            let keep = usize::try_from(remaining).unwrap_or(usize::MAX);
            file.hits.truncate(keep);
            remaining -= file.hits.len() as u64;
        }
        all.retain(|file| !file.hits.is_empty());
        all
    }
}
