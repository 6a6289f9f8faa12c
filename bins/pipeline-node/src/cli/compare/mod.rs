//! `compare`: what each threading model costs, in one table. All files do the same work in interleaved rounds of one run,
//! against one target. Deliberately nothing that `bench` does not measure as well: what is added is that the figures of
//! several files can stand beside each other.

mod args;
mod bare;
mod entrant;
mod figure;
mod json;
mod markdown;
mod pairs;
mod progress;
mod report;
mod rounds;
mod table;

use std::io::IsTerminal;

pub use args::Args;
use bare::BareLoop;
use entrant::{Entrant, Why, entrants};
use json::Counted;
use progress::Progress;
use report::{Place, columns, rows};
use rounds::{Results, Rounds};
use table::Mark;

use super::exit::{Failure, Outcome};
use super::file;
use super::load::machine::machine;
use super::logs;
use super::work::{Against, Course};

/// Runs it.
///
/// # Errors
/// 78 and 71 for files that do not validate or do not start, 1 for work that fails, 69 when the target cannot be reached; all
/// others run nevertheless.
pub fn run(args: &Args) -> Outcome {
    let course = Course::new(&args.work)?;
    let mut entrants = entrants(args);
    logs::of_command();
    let files = entrants.iter().filter(|entrant| entrant.state.is_ok()).count();
    if files > 0 {
        measure(args, &course, &mut entrants)?;
    } else {
        // There is no table then. Findings have been told; whoever reads objects gets one for each file.
        if args.json {
            file::print(&unmeasured(args, &course, &entrants)?)?;
        }
        let absent = |entrant: &Entrant| match &entrant.state {
            Err(why @ Why::NotApplicable(_)) => Some(format!("# {}: {}", entrant.model, why.text())),
            _ => None,
        };
        entrants.iter().filter_map(absent).for_each(|line| eprintln!("{line}"));
    }
    verdict(entrants)
}

fn measure(args: &Args, course: &Course, entrants: &mut [Entrant]) -> Outcome {
    let against = Against::start(args.whom(), course.target_bytes())?;
    let bare = BareLoop::start(args)?;
    let rounds = Rounds { args, course, against: &against, bare: &bare };
    let about = rounds.about(entrants).as_secs_f64();
    let lines = facts(args, course, &against, &bare, entrants, about);
    let progress = Progress::new(args.rounds * (entrants.len() as u64 + 1), about);
    head(args, &lines)?;
    let results = rounds.run(entrants, &progress)?;
    drop(progress);
    let place = Place { cpus: cpus(), has_target: against.is_here };
    let (columns, rows) = (columns(course), rows(entrants, &results, course, bare.title(), place));
    let counted = counted(args, &results);
    let left_out = left_out(counted);
    // A table may make what is best bold.
    file::draw(&if args.json {
        json::json(&rows, &columns, place, counted)?
    } else if args.markdown {
        let lines: Vec<String> = lines.iter().chain([&left_out]).map(|line| format!("* {line}\n")).collect();
        format!("{}\n{}", lines.concat(), markdown::markdown(&rows, &columns, place))
    } else {
        let mark = if std::io::stdout().is_terminal() { Mark::Bold } else { Mark::Star };
        let table = table::table(&rows, &columns, place, mark);
        format!("{table}# {left_out}\n{}{}", pairs::words(&rows, &columns), table::words(&rows, place))
    })
}

/// The objects of files of which none can run.
fn unmeasured(args: &Args, course: &Course, entrants: &[Entrant]) -> Result<String, Failure> {
    let results = Results::none(entrants.len(), course);
    let place = Place { cpus: cpus(), has_target: args.target.is_none() };
    let rows = rows(entrants, &results, course, "", place);
    json::json(&rows, &columns(course), place, counted(args, &results))
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What is said before it begins: a figure means nothing without.
fn facts(
    args: &Args,
    course: &Course,
    against: &Against,
    bare: &BareLoop,
    entrants: &[Entrant],
    about_s: f64,
) -> Vec<String> {
    let mut lines = machine();
    lines.push(course.words());
    let over = args.over().words(args.target.is_some());
    lines.push(format!("over {over}, in place of whatever a file declares; {}", against.words));
    lines.extend(declared_otherwise(entrants));
    lines.push(bare.words().to_owned());
    lines.push(format!(
        "{} rounds of {} s a cell, medians; about {about_s:.0} s in all",
        args.rounds, args.seconds
    ));
    lines
}

/// What the files declare and do not get; once if all say the same.
fn declared_otherwise(entrants: &[Entrant]) -> Option<String> {
    let ready = entrants.iter().filter_map(|entrant| Some((entrant, entrant.state.as_ref().ok()?)));
    let told: Vec<_> = ready.map(|(entrant, ready)| (&entrant.model, ready.replaced.as_ref())).collect();
    let (_, first) = *told.first()?;
    if told.len() > 1 && told.iter().all(|(_, replaced)| *replaced == first) {
        return first.map(|kinds| format!("declared otherwise: all, {kinds}"));
    }
    let told = told.into_iter().filter_map(|(model, replaced)| Some(format!("{model} ({})", replaced?)));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("declared otherwise: {}", told.join(", ")))
}

fn head(args: &Args, lines: &[String]) -> Outcome {
    let text: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    if args.json || args.markdown {
        // There stdout is objects, or a page, and nothing else.
        eprint!("{text}");
        return Ok(());
    }
    file::print(&text)
}

fn counted(args: &Args, results: &Results) -> Counted {
    let cells = results.counts.iter().flatten();
    Counted {
        rounds: args.rounds,
        left_out: cells.clone().filter(|counts| !**counts).count(),
        cells: cells.count(),
    }
}

fn left_out(counted: Counted) -> String {
    let Counted { left_out, cells, .. } = counted;
    format!(
        "left out because the bare loop was under 0.7 of its median: {left_out} of {cells} (rounds x cells)"
    )
}

/// How it ends: as the worst of the files. What was found in one has been told.
fn verdict(entrants: Vec<Entrant>) -> Outcome {
    let failed = entrants.into_iter().filter_map(|entrant| match entrant.state {
        Err(Why::Failed(failure)) => Some(failure),
        Err(Why::Refused(_)) => Some(Failure::told()),
        _ => None,
    });
    failed.reduce(Failure::worse).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches as _};

    fn args(words: &[&str]) -> Args {
        let command = Args::augment_args(Command::new("compare"));
        let matches = command.try_get_matches_from([&["compare", "x.toml"][..], words].concat()).unwrap();
        Args::from_arg_matches(&matches).unwrap()
    }

    /// `--help` has a line for every column of every piece of work, none so long that it would be broken; keys are unique.
    #[test]
    fn help_explains_every_column() {
        let help = Args::augment_args(Command::new("compare")).get_after_help().unwrap().to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        let explained: Vec<&str> = help.lines().take_while(|line| !line.is_empty()).collect();
        let explained = explained.join("\n");
        for work in ["sweep", "latency", "trace"] {
            let columns = columns(&Course::new(&args(&["--work", work]).work).unwrap());
            for (i, column) in columns.iter().enumerate() {
                let name = match column.group {
                    "GB/s" | "Mslices/s" | "CPU us" => column.group,
                    group if group.starts_with("CPU s/GB") => "CPU s/GB",
                    _ => column.head.as_str(),
                };
                assert!(explained.contains(&format!("{name} ")), "{name}");
                assert!(columns[..i].iter().all(|other| other.key != column.key), "{} twice", column.key);
            }
        }
    }
}
