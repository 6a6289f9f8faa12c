//! What is a record and what is not.

use super::*;
use crate::cli::draw::Draw;

const GOOD: &str = r#"{"pipeline_node_record":1}
{"gap_ns":1000,"requests":[{"op":"write","peer":"kv-0","bytes":65536,"times":16}]}
{"gap_ns":0,"dropped":3,"requests":[{"op":"read","peer":"peer#1","bytes":4096},{"op":"write","peer":"kv-0","bytes":96,"rows":3}]}

{"end":{"batches":2,"requests":18,"dropped":3}}
"#;

fn parse(text: &[u8]) -> Result<Record, RecordError> {
    Record::parse(text, "r.jsonl")
}

/// What a good record says is what is read: times add up, peers are numbered as they come, equal requests count each.
#[test]
fn a_good_record() {
    let record = parse(GOOD.as_bytes()).unwrap();
    assert_eq!(record.peers, ["kv-0", "peer#1"]);
    let batches: Vec<_> = record.batches.iter().map(|b| (b.at_ns, b.requests, b.bytes)).collect();
    assert_eq!(batches, [(1000, 16, 16 * 65536), (1000, 2, 4192)]);
    assert_eq!(record.runs(1)[1], Run { op: Direction::Write, peer: 0, bytes: 96, rows: 3, times: 1 });
    assert_eq!((record.dropped, record.is_whole, record.op()), (3, true, "mixed"));
    assert_eq!((record.requests(), record.bytes(), record.span_ns()), (18, 16 * 65536 + 4192, 1000));
    let cut: String = GOOD.lines().take(2).map(|line| format!("{line}\n")).collect();
    let record = parse(cut.as_bytes()).unwrap();
    assert!(!record.is_whole && record.op() == "write");
}

/// Each kind of nonsense is refused with the file, the line and what is wrong.
#[test]
fn nonsense_is_named() {
    let batch = GOOD.lines().nth(1).unwrap();
    let cases = [
        ("{", "column 2: EOF"),
        ("[1]", "neither a batch"),
        ("{}", "neither a batch"),
        (r#"{"pipeline_node_record":1}"#, "two records in one file"),
        (&batch.replace("1000", "-1"), "integer `-1`"),
        (&batch.replace("1000", "1.5"), "floating point `1.5`"),
        (&batch.replace("1000", "1000000000000000001"), "beyond thirty years"),
        (&batch.replace("write", "push"), "requests[0]: `op` is"),
        (&batch.replace("65536", "0"), "`bytes` is 0"),
        (&batch.replace("65536", "9999999999999999"), "`bytes` is 9999999999999999"),
        (&batch.replace("\"times\":16", "\"rows\":7"), "cannot lie in 7 equal rows"),
        (&batch.replace("16}", "0}"), "`times` is 0"),
        (&batch.replace("16}", "16777217}"), "`times` is 16777217"),
        (&batch.replace("kv-0", "a b"), "`peer` is no name"),
        (&batch.replace("kv-0", ""), "`peer` is no name"),
        (&batch.replace("gap_ns", "gap"), "unknown field `gap`"),
        (
            &batch.replace(
                ",\"requests\"",
                ",\"end\":{\"batches\":1,\"requests\":16,\"dropped\":0},\"requests\"",
            ),
            "neither a batch",
        ),
        (r#"{"gap_ns":1,"requests":[]}"#, "a batch of 0 requests"),
        (r#"{"end":{"batches":2,"requests":16,"dropped":0}}"#, "lines are missing"),
    ];
    for (bad, what) in cases {
        let text = format!("{{\"pipeline_node_record\":1}}\n{batch}\n\n{bad}\n");
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("r.jsonl:4: ") && error.contains(what), "{bad}: {error}");
    }
    for (text, says) in [
        (batch.to_owned() + "\n", ":1: no record: the first line is"),
        ("{\"pipeline_node_record\":2}\n".into(), ":1: a record of version 2; this program reads version 1"),
        (format!("{GOOD}{batch}\n"), ":6: something behind the end"),
        (GOOD.trim_end().into(), ":5: the line is cut off"),
        (String::new(), ": no batch in it"),
        ("{\"pipeline_node_record\":1}\n".into(), ": no batch in it"),
    ] {
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    assert!(matches!(Record::read(Path::new("/no/such/file")), Err(RecordError::Unreadable { .. })));
}

/// However a file is damaged (bytes changed, cut out, doubled), it is either refused with a place in it, or what is taken of it
/// makes sense.
#[test]
fn damaged_files_are_refused_or_make_sense() {
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..3000 {
        let mut draw = Draw::new(seed);
        let mut bytes = GOOD.as_bytes().to_vec();
        for _ in 0..1 + draw.below(3) {
            let at = draw.below(bytes.len() as u64) as usize;
            match draw.below(4) {
                0 => bytes[at] = draw.below(256) as u8,
                1 => bytes[at] = b"0123456789-e.,[]{}\":\n"[draw.below(21) as usize],
                2 => drop(bytes.drain(at..(at + 1 + draw.below(30) as usize).min(bytes.len()))),
                _ => bytes.extend_from_within(at..),
            }
            if bytes.is_empty() {
                bytes.push(b' ');
            }
        }
        match parse(&bytes) {
            Ok(record) => {
                taken += 1;
                assert!(record.batches.windows(2).all(|w| w[0].at_ns <= w[1].at_ns));
                let runs: Vec<_> = (0..record.batches.len()).flat_map(|b| record.runs(b)).collect();
                assert!(runs.iter().all(|run| run.bytes > 0 && (run.peer as usize) < record.peers.len()));
                assert_eq!(runs.iter().map(|run| u64::from(run.times)).sum::<u64>(), record.requests());
            }
            Err(RecordError::Nonsense { line, what, .. }) => {
                refused += 1;
                let lines = bytes.split(|b| *b == b'\n').count() as u64;
                assert!((1..=lines).contains(&line) && !what.is_empty());
            }
            Err(error) => assert!(matches!(error, RecordError::Empty { .. }), "{error}"),
        }
    }
    assert!(refused > 500 && taken > 30, "{refused} refused, {taken} taken: both are tried");
}
