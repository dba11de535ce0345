//! In doubt the strong model is asked while a small one thinks about which it should be.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::routing::{asked, said, world};
use crate::support::World;

const LITE: &str = "gemini-3.5-flash-lite";
const PRO: &str = "gemini-3.1-pro-preview";
const FLASH: &str = "gemini-3.8-flash";
const EAGER: &str = r#"{"model": {"routing": "on", "routingAhead": true}}"#;
const UNCLEAR: &str = "Add a flag --quiet\nto the parser";
/// More than the small model's start.
const SLOW: u64 = 700;

/// The small model: it thinks for a while and then gives that number.
fn scores(score: u64, wait: u64) -> Value {
    let text = json!({"complexity_reasoning": "x", "complexity_score": score}).to_string();
    let candidate = json!({"content": {"role": "model", "parts": [{"text": text}]},
        "finishReason": "STOP"});
    json!({"method": "generateContent", "chunks": [{"wait_ms": wait}, {"candidates": [candidate]}]})
}

fn of(model: &str, mut reply: Value) -> Value {
    reply["match"] = json!({"modelContains": model});
    reply
}

/// An answer with that usage that goes on for ever, or is whole.
fn counted(tokens: u64, whole: bool) -> Value {
    let content = json!({"role": "model", "parts": [{"text": "dropped"}]});
    let mut candidate = json!({"content": content});
    if whole {
        candidate["finishReason"] = json!("STOP");
    }
    let usage = json!({"promptTokenCount": tokens, "totalTokenCount": tokens});
    let chunk = json!({"candidates": [candidate], "usageMetadata": usage});
    json!({"chunks": if whole { vec![chunk] } else { vec![chunk, json!({"hang": true})] }})
}

/// A world in which the strong model may be asked meanwhile.
fn eager(script: &str) -> World {
    let world = world(script, "{}");
    world.home.write_home(".gemini/settings.json", EAGER).expect("settings");
    world
}

fn run(world: &World) -> Value {
    said(&world.run_well(&["-p", UNCLEAR, "-o", "json"]))
}

#[test]
fn the_right_model_has_begun_already() {
    let thinks = json!({"chunks": [{"text": "do"}, {"wait_ms": SLOW}, {"text": "ne"},
        {"finish": "STOP"}]});
    let world = eager(&json!([scores(95, SLOW), thinks]).to_string());
    let said = run(&world);
    assert_eq!(asked(&world), [LITE, PRO]);
    assert_eq!(said["response"], "done");
    let route = &said["stats"]["routing"][0];
    assert_eq!((&route["ahead"], &route["model"]), (&json!("used"), &json!(PRO)));
    assert_eq!(said["stats"]["models"][PRO]["api"]["totalRequests"], 1);
    assert_eq!(said["stats"]["models"][PRO]["roles"]["main"]["totalRequests"], 1);
}

#[test]
fn the_wrong_one_is_dropped_and_what_it_spent_counts() {
    let script = json!([
        scores(10, SLOW),
        of("pro", counted(5_000, false)),
        of("3.8", json!({"text": "done"}))
    ]);
    let world = eager(&script.to_string());
    let told = run(&world);
    assert_eq!(asked(&world), [LITE, PRO, FLASH]);
    assert_eq!(told["response"], "done");
    assert_eq!(told["stats"]["routing"][0]["ahead"], "dropped");
    let roles = &told["stats"]["models"][PRO]["roles"];
    assert!(roles["main"].is_null(), "{roles}");
    assert_eq!(roles["utility_router"]["tokens"]["prompt"], 5_000);
    assert_eq!(told["stats"]["models"][PRO]["api"]["totalErrors"], 0);
    // It counts for a budget too.
    let script = json!([scores(10, SLOW), of("pro", counted(5_000_000, false))]);
    let poor = World::in_home(world.home, &script.to_string());
    let done = poor.run(&["-p", UNCLEAR, "-o", "json", "--max-tokens", "4000000"]);
    assert_eq!((done.code(), asked(&poor)), (57, vec![LITE.to_owned(), PRO.to_owned()]));
    // Of one that it would nearly spend nothing is asked in vain.
    let script = json!([scores(10, SLOW), of("3.8", json!({"text": "done"}))]);
    let poor = World::in_home(poor.home, &script.to_string());
    poor.run(&["-p", UNCLEAR, "-o", "json", "--max-tokens", "8000"]);
    assert_eq!(asked(&poor), [LITE, FLASH]);
}

#[test]
fn a_script_has_no_answer_to_spare() {
    let world = eager("[]");
    let text = json!({"complexity_reasoning": "x", "complexity_score": 10}).to_string();
    let answer = |text: &str| {
        json!({"candidates": [{"content": {"role": "model",
        "parts": [{"text": text}]}, "finishReason": "STOP"}]})
    };
    let lines = [
        json!({"method": "generateContent", "response": answer(&text), "delayMs": SLOW}),
        json!({"method": "generateContentStream", "response": [answer("done")]}),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    world.home.write("fake.jsonl", &lines).expect("script");
    let done = world.run(&["-p", UNCLEAR, "--fake-responses", "fake.jsonl"]);
    assert_eq!((done.code(), done.out().as_str()), (0, "done\n"), "{}", done.err());
}

#[test]
fn a_small_model_that_fails_or_hangs_costs_no_time() {
    let cut = json!({"method": "generateContent",
        "chunks": [{"wait_ms": SLOW}, {"cut": "reset"}]});
    let hang = json!({"method": "generateContent", "chunks": [{"hang": true}]});
    for (reply, why) in [(cut, ""), (hang, "no answer within 700 ms")] {
        let world = world(&json!([reply, {"text": "done"}]).to_string(), "{}");
        let settings =
            r#"{"model": {"routing": "on", "routingAhead": true, "routingTimeoutMs": 700}}"#;
        world.home.write_home(".gemini/settings.json", settings).expect("settings");
        let said = run(&world);
        assert_eq!(asked(&world), [LITE, PRO]);
        let route = &said["stats"]["routing"][0];
        assert_eq!((&route["source"], &route["ahead"]), (&json!("default"), &json!("used")));
        assert!(route["error"].as_str().expect("an error").contains(why), "{route}");
    }
}

#[test]
fn an_interrupt_ends_both() {
    let hang = json!({"method": "generateContent", "chunks": [{"hang": true}]});
    let world = world(&json!([hang, counted(10, false)]).to_string(), "{}");
    let settings =
        r#"{"model": {"routing": "on", "routingAhead": true, "routingTimeoutMs": 60000}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let running = world.start(&["-p", UNCLEAR, "-o", "json"]);
    world.asked(2);
    let begun = Instant::now();
    kill_process(running.pid(), Signal::INT).expect("signal");
    let done = running.finish(Duration::from_secs(10)).expect("finish");
    assert_eq!(done.code(), 130, "{}", done.err());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(!done.out().contains("dropped"), "{}", done.out());
}

#[test]
fn an_answer_larger_than_what_is_held_back_is_whole() {
    let much = json!({"generate": {"chunks": 300, "bytes": 6_000_000}});
    let world = eager(&json!([scores(95, SLOW), much]).to_string());
    let settings =
        r#"{"model": {"routing": "on", "routingAhead": true, "disableLoopDetection": true}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let said = run(&world);
    assert_eq!(said["stats"]["routing"][0]["ahead"], "used");
    assert!(said["response"].as_str().expect("text").len() >= 6_000_000);
}

#[test]
fn nothing_is_sent_ahead_where_hooks_look_at_requests_or_nobody_wants_it() {
    let hook = json!([{"hooks": [{"type": "command", "command": "echo x >> asked; echo '{}'"}]}]);
    let hooked =
        json!({"model": {"routing": "on", "routingAhead": true}, "hooks": {"BeforeModel": hook}});
    let off = json!({"model": {"routing": "on", "routingAhead": false}});
    for settings in [hooked, off] {
        let script = json!([scores(10, SLOW), {"text": "done"}]).to_string();
        let world = world(&script, "{}");
        world.home.write_home(".gemini/settings.json", &settings.to_string()).expect("settings");
        let said = run(&world);
        assert_eq!(asked(&world), [LITE, FLASH]);
        assert!(said["stats"]["routing"][0]["ahead"].is_null());
        let times = world.read("asked").lines().count();
        assert_eq!(times, usize::from(settings.get("hooks").is_some()));
    }
}

#[test]
fn a_recording_holds_the_answer_that_counted() {
    let wrong = of("pro", counted(10, true));
    let script = json!([scores(10, SLOW), wrong, of("3.8", json!({"text": "done"}))]);
    let world = eager(&script.to_string());
    world.run_well(&["-p", UNCLEAR, "--record", "tape.jsonl"]);
    assert_eq!(asked(&world), [LITE, PRO, FLASH]);
    assert!(!world.read("tape.jsonl").contains("dropped"), "{}", world.read("tape.jsonl"));
    let done = world.run(&["-p", UNCLEAR, "--replay", "tape.jsonl"]);
    assert_eq!((done.code(), done.out().as_str()), (0, "done\n"), "{}", done.err());
}
