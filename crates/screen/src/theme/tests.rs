use serde_json::json;

use super::*;

#[test]
fn every_theme_name_resolves() {
    let names: Vec<&str> = Theme::names().collect();
    assert_eq!(names.len(), 20);
    for name in names {
        let theme = Theme::by_name(&name.to_uppercase()).expect("a theme");
        assert_eq!(theme.name, name);
    }
    let error = Theme::by_name("Nope").expect_err("no theme").to_string();
    assert!(error.contains("`Nope`") && error.contains("`Tokyo Night`"), "{error}");
}

/// Returns every style of text, with its name.
fn text_styles(theme: &Theme) -> [(&'static str, Style); 21] {
    [
        ("text", theme.text),
        ("secondary", theme.secondary),
        ("link", theme.link),
        ("accent", theme.accent),
        ("response", theme.response),
        ("user", theme.user),
        ("code", theme.code),
        ("symbol", theme.symbol),
        ("comment", theme.comment),
        ("success", theme.success),
        ("warning", theme.warning),
        ("error", theme.error),
        ("added", theme.added),
        ("added word", theme.added_word),
        ("removed", theme.removed),
        ("removed word", theme.removed_word),
        ("keyword", theme.keyword),
        ("string", theme.string),
        ("number", theme.number),
        ("function", theme.function),
        ("type", theme.type_name),
    ]
}

#[test]
fn text_has_enough_contrast_on_every_background() {
    for name in Theme::names() {
        let theme = Theme::by_name(name).expect("a theme");
        let Some(background) = theme.background else { continue };
        assert_eq!(theme.light, is_light(color::parts(background)), "{name}");
        for (what, style) in text_styles(&theme) {
            let behind = style.bg.unwrap_or(background);
            let ratio = color::contrast(style.fg.expect("a colour"), behind);
            assert!(ratio >= color::CONTRAST, "{name}: {what} has a contrast of {ratio:.1}");
        }
        // Code and signs are drawn on diff rows, prompts on their band.
        for row in [theme.added, theme.removed].into_iter().filter_map(|row| row.bg) {
            for style in
                [theme.keyword, theme.string, theme.number, theme.function, theme.type_name]
                    .into_iter()
                    .chain([theme.comment, theme.success, theme.error])
            {
                let ratio = color::contrast(style.fg.expect("a colour"), row);
                assert!(ratio >= color::CONTRAST, "{name}: {style:?} on {row:?}: {ratio:.1}");
            }
        }
        let band = theme.band.expect("a band");
        assert!(color::contrast(theme.user.fg.expect("a colour"), band) >= color::CONTRAST);
    }
}

#[test]
fn text_of_every_theme_is_legible_on_tinted_lines() {
    for name in Theme::names() {
        for background in [(0, 0, 0), (30, 30, 46), (0, 43, 54), (255, 255, 255), (253, 246, 227)] {
            for depth in [ColorDepth::Ansi256, ColorDepth::True] {
                let theme = Theme::by_name(name).expect("a theme");
                let theme = theme.adapt_to_terminal(background, depth).reduce_to(depth);
                for (row, word) in
                    [(theme.added, theme.added_word), (theme.removed, theme.removed_word)]
                {
                    if row.bg.is_none() {
                        continue;
                    }
                    let styles = text_styles(&theme).into_iter().filter(|(_, it)| it.bg.is_none());
                    let on_row = styles
                        .chain([("border", theme.border), ("row", row)])
                        .map(|(what, it)| (what, theme.on_tint(Style { bg: None, ..it }, row)));
                    for (what, style) in on_row.chain([("word", word)]) {
                        assert!(!style.attributes.contains(Attributes::DIM), "{name}: {what}");
                        let [text, behind] = [style.fg, style.bg]
                            .map(|color| crate::sgr::reduce(color.expect("a color"), depth));
                        let ratio = color::contrast(text, behind);
                        let about = format!("{name} {background:?} {depth:?}: {what}");
                        assert!(ratio >= color::CONTRAST, "{about}: {ratio:.1}");
                    }
                }
            }
        }
    }
}

#[test]
fn tints_leave_the_terminals_own_text_readable() {
    let (black, white) = (Color::Rgb(0, 0, 0), Color::Rgb(255, 255, 255));
    for (background, text) in [
        ((0, 0, 0), white),
        ((30, 30, 46), white),
        ((0, 43, 54), white),
        ((255, 255, 255), black),
        ((253, 246, 227), black),
    ] {
        for depth in [ColorDepth::Ansi256, ColorDepth::True] {
            for name in ["Default", "Default Light", "ANSI", "ANSI Light"] {
                let theme =
                    Theme::by_name(name).expect("a theme").adapt_to_terminal(background, depth);
                let styles = [theme.added, theme.added_word, theme.removed, theme.removed_word];
                for behind in styles.into_iter().map(|style| style.bg).chain([theme.band]) {
                    let behind = behind.expect("a background");
                    let ratio = color::contrast(text, behind);
                    assert!(ratio >= color::CONTRAST, "{name} {background:?}: {ratio:.1}");
                    assert_ne!(color::parts(behind), background);
                }
            }
        }
    }
    for depth in [ColorDepth::None, ColorDepth::Ansi16] {
        assert_eq!(Theme::default().adapt_to_terminal((0, 0, 0), depth), Theme::default());
    }
}

#[test]
fn default_and_no_color_themes_use_terminal_colors() {
    let colors = |theme: &Theme| {
        let styles = [theme.text, theme.link, theme.error, theme.added, theme.keyword, theme.user];
        styles.into_iter().flat_map(|style| [style.fg, style.bg]).flatten().collect::<Vec<_>>()
    };
    assert!(colors(&Theme::default()).iter().all(|color| matches!(color, Color::Ansi(_))));
    assert_eq!(colors(&Theme::no_color()), []);
    assert_eq!(Theme::no_color().adapt_to_terminal((0, 0, 0), ColorDepth::True).band, None);
}

#[test]
fn colors_are_parsed_in_all_forms() {
    assert_eq!(parse_color("#1a2B3c"), Some(Color::Rgb(0x1a, 0x2b, 0x3c)));
    assert_eq!(parse_color("#f0a"), Some(Color::Rgb(0xff, 0, 0xaa)));
    assert_eq!(parse_color("RedBright"), Some(Color::Ansi(9)));
    assert_eq!(parse_color("rebeccapurple"), Some(Color::Rgb(0x66, 0x33, 0x99)));
    for invalid in ["#12", "#+12345", "nocolour", "", "#12345g"] {
        assert_eq!(parse_color(invalid), None, "{invalid}");
    }
    assert!(css::NAMES.is_sorted_by_key(|(name, _)| name));
}

#[test]
fn custom_theme_has_groups_or_flat_keys() {
    let grouped = Theme::custom(&json!({
        "name": "Mine", "type": "custom",
        "text": {"primary": "#eeeeee", "link": "cyan"},
        "background": {"primary": "#000000", "diff": {"added": "#002200"}},
        "status": {"error": "crimson"},
        "ui": {"gradient": ["#111111", "red"]},
    }))
    .expect("a theme");
    assert_eq!(grouped.text.fg, Some(Color::Rgb(0xee, 0xee, 0xee)));
    assert_eq!(grouped.link.fg, Some(Color::Ansi(6)));
    assert_eq!(grouped.error.fg, Some(Color::Rgb(0xdc, 0x14, 0x3c)));
    assert_eq!(grouped.added.bg, Some(Color::Rgb(0, 0x22, 0)));
    assert_eq!(grouped.gradient.len(), 2);
    assert!(!grouped.light);
    let flat = Theme::custom(&json!({
        "name": "Old", "Background": "white", "Foreground": "#111111", "AccentRed": "#aa0000", "Gray": "#808080",
    }))
    .expect("a theme");
    assert_eq!(flat.error.fg, Some(Color::Rgb(0xaa, 0, 0)));
    assert!(flat.light);
}

#[test]
fn band_colors_are_mixed_from_the_background() {
    let theme = Theme::custom(&json!({"name": "M", "Background": "#000000", "Gray": "#646464"}))
        .expect("a theme");
    assert_eq!(theme.input_band, Some(Color::Rgb(24, 24, 24)));
    assert_eq!(theme.band, Some(Color::Rgb(16, 16, 16)));
    let given = Theme::custom(
        &json!({"name": "M", "Background": "#000000", "background": {"message": "#010203"}}),
    );
    assert_eq!(given.expect("a theme").band, Some(Color::Rgb(1, 2, 3)));
    assert_eq!(Theme::default().band, None);
    assert!(Theme::default().adapt_to_terminal((0, 0, 0), ColorDepth::True).band.is_some());
}

#[test]
fn theme_errors_name_the_problem() {
    for (json, expected) in [
        (json!([]), "must be an object"),
        (json!({}), "`name` must be"),
        (json!({"name": "a", "type": "b"}), "`type` must be `custom`"),
        (
            json!({"name": "a", "text": {"link": "blurple"}}),
            "invalid color `blurple` of `text.link`",
        ),
        (json!({"name": "a", "AccentRed": 3}), "`AccentRed` must be a color"),
        (json!({"name": "a", "text": 3}), "`text.primary` must be a color"),
        (json!({"name": "a", "ui": {"gradient": "red"}}), "`ui.gradient` must be a list"),
    ] {
        let error = Theme::custom(&json).expect_err("an error").to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(Theme::from_json("{").expect_err("an error").to_string().contains("invalid JSON"));
}

#[test]
fn background_selects_the_default_theme() {
    assert_eq!(Theme::default_for((255, 255, 240)).name, "Default Light");
    assert_eq!(Theme::default_for((20, 20, 30)).name, "Default");
    assert!(Theme::by_name("Xcode").expect("a theme").is_readable_on((250, 250, 250)));
    assert!(!Theme::default().is_readable_on((250, 250, 250)));
}

#[test]
fn named_themes_keep_their_meaning_with_few_colors() {
    let sent = |color: Option<Color>, depth| color.map(|color| crate::sgr::reduce(color, depth));
    let gray = |color: Option<Color>| {
        let (red, green, blue) = color::parts(color.expect("a color"));
        red == green && green == blue
    };
    for name in Theme::names().filter(|name| *name != "NoColor") {
        let theme = |depth| Theme::by_name(name).expect("a theme").reduce_to(depth);
        let few = theme(ColorDepth::Ansi256);
        if few.background.is_some() {
            let backgrounds = [few.added, few.added_word, few.removed, few.removed_word]
                .map(|style| sent(style.bg, ColorDepth::Ansi256));
            for (at, background) in backgrounds.iter().enumerate() {
                assert!(!gray(*background), "{name}: {background:?}");
                assert!(!backgrounds[..at].contains(background), "{name}: {backgrounds:?}");
            }
            for style in [few.added, few.added_word, few.removed, few.removed_word] {
                let text = sent(style.fg, ColorDepth::Ansi256).expect("a color");
                let ratio = color::contrast(text, style.bg.expect("a background"));
                assert!(ratio >= 4.0, "{name}: {style:?} {ratio:.1}");
            }
        }
        let sixteen = theme(ColorDepth::Ansi16);
        assert_eq!((sixteen.added.bg, sixteen.removed.bg), (None, None), "{name}");
        let hue = |style: Style| match sent(style.fg, ColorDepth::Ansi16) {
            Some(Color::Ansi(index)) => index % 8,
            other => panic!("{name}: {other:?}"),
        };
        let [error, warning, success] = [sixteen.error, sixteen.warning, sixteen.success].map(hue);
        assert!([1, 3].contains(&error) && [3, 5].contains(&warning), "{name}: {error} {warning}");
        assert!([2, 3, 4].contains(&success) && success != error, "{name}: {success}");
        assert_ne!(hue(sixteen.added), hue(sixteen.removed), "{name}");
    }
}
