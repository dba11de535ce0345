//! `parallax stats` over the sessions of several projects.

use serde_json::{Value, json};

use crate::support::World;

#[test]
fn sessions_are_summed_by_day_model_project_and_tool() {
    let script = json!([
        {"calls": [{"name": "read_file", "args": {"file_path": "a.txt"}}]},
        {"text": "done", "repeat": 0},
    ]);
    let world = World::new(&script.to_string());
    let none = world.run_ok(&["stats"]);
    assert!(none.stdout().contains("No session used a model"), "{}", none.stdout());
    world.home.write("a.txt", "x").expect("write");
    world.run_ok(&["-p", "one", "-m", "gemini-2.5-pro"]);
    world.run_ok(&["-p", "two", "-m", "gemini-2.5-flash"]);
    let output = world.run_ok(&["stats", "--json", "--since", "1d"]);
    let report: Value = serde_json::from_str(&output.stdout()).expect("JSON");
    assert_eq!((&report["sessions"], &report["total"]["requests"]), (&json!(2), &json!(3)));
    assert_eq!(report["days"].as_array().unwrap().len(), 1);
    assert_eq!(report["models"].as_array().unwrap().len(), 2);
    let project = report["projects"][0]["name"].as_str().expect("a name");
    assert_eq!(std::path::Path::new(project), world.home.project().canonicalize().unwrap());
    assert_eq!(
        (&report["tools"][0]["name"], &report["tools"][0]["calls"]),
        (&json!("read_file"), &json!(1))
    );
    assert!(report["total"]["input_tokens"].as_u64().is_some_and(|count| count > 0));
    let csv = world.run_ok(&["stats", "--csv"]);
    assert_eq!(csv.stdout().lines().filter(|line| line.starts_with("model,")).count(), 2);
    let text = world.run_ok(&["stats"]);
    assert!(text.stdout().contains("Projects") && text.stdout().contains('█'), "{}", text.stdout());
    let old = world.run_ok(&["stats", "--json", "--since", "2999-01-01"]);
    let old: Value = serde_json::from_str(&old.stdout()).expect("JSON");
    assert_eq!(old["sessions"], 0);
    for (since, sessions) in [("0h", 0), ("1h", 2)] {
        let output = world.run_ok(&["stats", "--json", "--since", since]);
        let report: Value = serde_json::from_str(&output.stdout()).expect("JSON");
        assert_eq!(report["sessions"], sessions, "{since}");
    }
    let rejected = world.run(&["stats", "--since", "soon"]);
    assert!(rejected.code() != 0 && rejected.err().contains("30d"), "{}", rejected.err());
}

#[test]
fn cost_of_a_model_without_a_price_is_unknown_and_the_total_incomplete() {
    let world = World::new(r#"[{"text": "done", "repeat": 0}]"#);
    world.run_ok(&["-p", "one", "-m", "unknown-model-x"]);
    let report = || -> Value {
        let output = world.run_ok(&["stats", "--json"]);
        serde_json::from_str(&output.stdout()).expect("JSON")
    };
    let unknown = report();
    assert_eq!(
        (&unknown["total"]["cost"], &unknown["total"]["unpriced"]),
        (&Value::Null, &json!(true))
    );
    assert!(!world.run_ok(&["stats"]).stdout().contains("$0"));
    world.run_ok(&["-p", "two", "-m", "gemini-2.5-pro"]);
    let both = report();
    assert!(both["total"]["cost"].as_f64().is_some_and(|cost| cost > 0.0), "{both}");
    assert_eq!(both["total"]["unpriced"], true);
    let text = world.run_ok(&["stats"]).stdout();
    assert!(
        text.contains("≥ $") && text.contains("no price is known for `unknown-model-x`"),
        "{text}"
    );
    let csv = world.run_ok(&["stats", "--csv"]).stdout();
    let row = csv.lines().find(|line| line.starts_with("model,unknown-model-x,")).expect("a row");
    assert!(row.contains(",,") && row.ends_with(",false") && !row.contains("0.000000"), "{csv}");
}
