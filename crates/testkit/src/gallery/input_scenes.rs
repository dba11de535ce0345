//! Scenes of the first screen and of typing.

use super::conversation::{documented, scene};
use super::{Scene, Step};
use crate::pty::Key;

pub(super) fn all() -> Vec<Scene> {
    vec![welcome(), commands(), files(), auto_edit()]
}

fn welcome() -> Scene {
    let texts = &["Parallax", "gemini-2.5-pro", "ferry"];
    Scene { size: (96, 18), ..scene("welcome", Vec::new(), vec![Step::Ready], texts) }
}

fn commands() -> Scene {
    let listed = "Show version, model";
    let steps = vec![Step::Ready, Step::Type("/"), Step::See(listed)];
    let texts = &["about", "agents"];
    documented(22, scene("commands", Vec::new(), steps, texts))
}

fn files() -> Scene {
    let steps = vec![Step::Ready, Step::Idle, Step::Type("Is @ret"), Step::See("tests/retry.rs")];
    documented(18, scene("files", Vec::new(), steps, &["src/retry.rs", "tests/retry.rs"]))
}

fn auto_edit() -> Scene {
    let steps = vec![Step::Ready, Step::Press(Key::BackTab), Step::See("auto-edit")];
    Scene { size: (96, 18), ..scene("auto-edit", Vec::new(), steps, &["auto-edit"]) }
}
