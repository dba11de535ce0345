//! Terminal output and input: styled rows, keys, and three display modes (inline with a live
//! region, full screen, plain lines). Independent of the agent.
//!
//! Nothing else writes to the terminal. All text goes through [`Line`]; its control characters are
//! never sent.

mod align;
mod burst;
mod canvas;
mod capabilities;
mod decode;
pub mod described;
mod image;
mod input;
mod key;
pub mod layout;
mod line;
mod mode;
mod osc;
mod paint;
mod plain;
mod region;
mod resize_debounce;
mod row;
pub mod sanitize;
mod screen;
mod sgr;
mod shared;
mod style;
mod terminal_state;
pub mod theme;
mod tty;
mod width;
mod wrap;

pub use capabilities::{Capabilities, TerminalKind};
pub use image::{
    GraphicsCapabilities, GraphicsProtocol, ImageError, ImageFormat, ImageHeader, TerminalImage,
};
pub use input::Input;
pub use key::{InputEvent, Key, KeyCode, Modifiers, MouseEvent, MouseKind, burst_text};
pub use line::{Line, Span};
pub use mode::Mode;
pub use osc::{NotificationSequence, TaskbarProgress};
pub use paint::PaintOptions;
pub use region::{Frame, Region};
pub use screen::{Screen, ScreenOptions};
pub use sgr::ColorDepth;
pub use style::{Attributes, Color, Style};
pub use tty::{emergency_restore, restore_on_panic};
pub use width::{char_width, grapheme_width, text_width, truncate};
pub use wrap::{longest_word, with_visible_characters, wrap};
