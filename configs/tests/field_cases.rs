//! Failures of other engines, held here: misspelt keys in every table (B41), pools sized from the machine (B34),
//! variables that change nothing or are malformed (B45, B46), renamed keys.

#![allow(clippy::unwrap_used, reason = "only tests")]

mod kinds;

use pipeline_configs::tables::{self, Form};
use pipeline_configs::{Config, Findings, Options, Severity, codes, load_str, show};

fn findings(text: &str, options: &Options) -> Findings {
    match load_str("t", text, &kinds::catalog(), options) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    }
}

/// B41: in every table in turn, a misspelt key beside the real ones is an error with its line, and the nearest name.
#[test]
fn a_misspelt_key_in_every_table() {
    for decl in tables::all(&kinds::catalog()) {
        let Some(key) = decl.keys.iter().find(|k| k.name.len() > 3) else { continue };
        // Two letters change places, as fingers do it.
        let mut letters: Vec<char> = key.name.chars().collect();
        letters.swap(0, 1);
        let slip: String = letters.into_iter().collect();
        let chosen = decl
            .variant
            .map_or(String::new(), |(k, word)| format!("{k} = \"{}\", ", word.replace(":N", ":0")));
        let line = match (decl.form, decl.path) {
            (Form::Inside, "pools.wait") => format!("pools.nic.wait = {{ {slip} = 1 }}"),
            (Form::Inside, "edges") => format!("edges.\"select -> post\" = {{ queue = 8, {slip} = 1 }}"),
            (Form::Inside, _) => format!("routes = [{{ use = \"tcp\", match = {{ {slip} = 1 }} }}]"),
            (Form::Listed, path) => format!("{path} = [{{ {slip} = 1, use = \"tcp\", match = {{}} }}]"),
            (Form::Single, path) => format!("{path}.{slip} = 1"),
            (Form::Named, path) => format!("{path}.another = {{ {chosen}{slip} = 1 }}"),
        };
        let found = findings(&format!("version = 1\nuse = \"tcp\"\n{line}\n"), &Options::default());
        let unknown = found
            .list
            .iter()
            .find(|f| f.code == codes::KEY_UNKNOWN && f.message.contains(&format!("`{slip}`")));
        let unknown = unknown.unwrap_or_else(|| panic!("{line}\n{found}"));
        assert_eq!(unknown.severity, Severity::Error);
        assert!(found.sources.label(unknown.place.unwrap()).starts_with("t:3:"), "{line}");
        assert!(unknown.help[0].contains(key.name), "{line}: {:?}", unknown.help);
    }
}

/// B41: a misspelt table is an error with the nearest name, whichever table it is.
#[test]
fn a_misspelt_table() {
    for name in tables::TOP.iter().filter(|n| n.len() > 3 && !["version"].contains(n)) {
        let slip = format!("{}{}{}", &name[..1], &name[2..3], name[1..2].to_owned() + &name[3..]);
        if slip == *name {
            continue;
        }
        let found = findings(&format!("version = 1\nuse = \"tcp\"\n[{slip}]\n"), &Options::default());
        let unknown = found
            .list
            .iter()
            .find(|f| f.code == codes::TABLE_UNKNOWN)
            .unwrap_or_else(|| panic!("{slip}: {found}"));
        assert!(unknown.help[0].contains(&format!("did you mean `{name}`")), "{slip}: {:?}", unknown.help);
    }
}

/// B34: a pool that does not say its threads gets what the machine grants; one for each listed CPU; one with `per`; a
/// said number is kept, with a warning where the machine has fewer.
#[test]
fn pools_are_sized_by_what_is_granted() {
    let load = |pool: &str, cpus: &[usize], budget: usize| {
        let text = format!("version = 1\nuse = \"tcp\"\n[pools]\nmine = {pool}\n[stages]\n")
            + &["admit", "split", "route", "select"].map(|s| format!("{s}.pool = \"mine\"\n")).concat();
        let options = Options { cpus: cpus.to_vec(), budget, ..Options::default() };
        let loaded = load_str("t", &text, &kinds::catalog(), &options).unwrap_or_else(|f| panic!("{f}"));
        let pool = loaded.config.blueprint.pools.iter().find(|p| p.name == "mine").unwrap().clone();
        (
            pool.threads,
            pool.cpus,
            loaded.warnings.list.iter().filter(|f| f.code == codes::CPU_CROWDED).count(),
        )
    };
    assert_eq!(load("{}", &[], 0), (1, vec![], 0), "nothing is known");
    assert_eq!(load("{}", &[0], 1), (1, vec![], 0), "taskset -c 0");
    assert_eq!(load("{}", &[0, 1, 2, 3], 2), (2, vec![], 0), "a quota of 1.5 CPUs, rounded up");
    assert_eq!(load("{}", &[1, 2, 3], 3), (3, vec![], 0), "a mask without CPU 0");
    assert_eq!(load("{ cores = \"all\" }", &[1, 2], 1), (2, vec![1, 2], 0), "never a CPU outside the mask");
    assert_eq!(load("{ threads = 8 }", &[0], 1), (8, vec![], 1), "a said number is kept, with a warning");
}

/// B45: `show` says which variable, argument, line or default each value came from, and the order of precedence holds.
#[test]
fn values_tell_their_source() {
    let text = "version = 1\nuse = \"tcp\"\nlimits = { slices = 2000, requests = 1000, peers = 10 }\n";
    let env = [("PIPELINE_NODE__LIMITS__SLICES", "3000"), ("PIPELINE_NODE__LIMITS__REQUESTS", "4000")];
    let options = Options {
        set: vec!["limits.slices=5000".into()],
        env: env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        ..Options::default()
    };
    let loaded = load_str("t", text, &kinds::catalog(), &options).unwrap();
    let shown = show::show(&loaded, &kinds::catalog());
    let of = |path: &str| {
        let found = shown.iter().find(|s| s.path == path).unwrap_or_else(|| panic!("{path}"));
        (found.value.as_str(), found.source.as_str())
    };
    assert_eq!(of("limits.slices"), ("5000", "--set"));
    assert_eq!(of("limits.requests"), ("4000", "env PIPELINE_NODE__LIMITS__REQUESTS"));
    assert_eq!(of("limits.peers"), ("10", "t:3:52"));
    assert_eq!(of("limits.batches"), ("16384", "default"));
    assert_eq!(of("drain.timeout"), ("\"10s\"", "default"));
    assert!(of("pools.nic.wait").1.starts_with("<preset tcp>:"));
    assert_eq!(of("stages.post.type").0, "\"wr_post\"");
    assert_eq!(of("edges.\"retry -> select\"").0, "\"return\"");
}

/// What `show` lists can be given back by `--set`, value by value, and the file stays what it was.
#[test]
fn what_is_shown_can_be_set() {
    let text = "version = 1\nuse = \"tcp\"\n";
    let loaded = load_str("t", text, &kinds::catalog(), &Options::default()).unwrap();
    let shown = show::show(&loaded, &kinds::catalog());
    assert!(shown.len() > 60);
    let set =
        shown.iter().filter(|s| s.path.contains('.')).map(|s| format!("{}={}", s.path, s.value)).collect();
    let again = load_str("t", text, &kinds::catalog(), &Options { set, ..Options::default() });
    let again = again.unwrap_or_else(|f| panic!("{f}"));
    // Where a value comes from is another place now; what is listed is not.
    let values =
        |of: &[show::Shown]| of.iter().map(|s| (s.path.clone(), s.value.clone())).collect::<Vec<_>>();
    assert_eq!(values(&again.config.shown), values(&loaded.config.shown));
    let but = |config: &Config| format!("{:?}", Config { shown: [].into(), ..config.clone() });
    assert_eq!(but(&again.config), but(&loaded.config));
}

/// A key under its former name counts, and warns with the name to write and the version that no longer reads it. No
/// declared former name is older than one minor version.
#[test]
fn renamed_keys() {
    let text = "version = 1\nuse = \"tcp\"\ntransports.sim = { type = \"sim\", latency = \"5us\" }\n";
    let loaded = load_str("t", text, &kinds::catalog(), &Options::default()).unwrap();
    let delay = loaded.config.transports[1].values.time("delay").unwrap();
    assert_eq!(delay.as_micros(), 5);
    assert_eq!(loaded.warnings.list[0].code, codes::RENAMED);
    loaded.runnable().unwrap();
    let minor: u32 = env!("CARGO_PKG_VERSION_MINOR").parse().unwrap();
    for decl in tables::all(&kinds::catalog()) {
        for former in decl.keys.iter().flat_map(|k| k.formerly) {
            assert!(former.since.1 + 1 > minor, "{}: `{}` is no longer read", decl.path, former.name);
        }
    }
}

/// The words that the documentation gives for `wait` are those that are read.
#[test]
fn words_of_wait() {
    for word in ["spin", "yield", "park", "adaptive"] {
        let text = format!("version = 1\nuse = \"tcp\"\npools.nic.wait = \"{word}\"\n");
        assert_eq!(findings(&text, &Options::default()).errors(), 0, "{word}");
    }
}
