//! The table in markdown.

use std::fmt::Write as _;

use crate::Case;
use crate::pace::Shape;
use crate::run::Figure;

/// A case and its rounds: by round, then by variant.
pub struct Row {
    pub case: Case,
    pub shape: Shape,
    pub figures: Vec<Vec<Figure>>,
}

/// Adaptive is the last variant.
const ADAPTIVE: usize = 3;

/// Share of a core that adaptive may take from gaps of 10 ms on, percent.
const IDLE_PCT: f64 = 2.0;

impl Row {
    pub fn new(case: Case, shape: Shape, _variants: usize) -> Self {
        Self { case, shape, figures: Vec::new() }
    }

    fn of(&self, variant: usize, what: impl Fn(&Figure) -> f64) -> f64 {
        median(self.figures.iter().map(|round| what(&round[variant])).collect())[0]
    }

    /// Adaptive's cost over that of the cheaper of the first two: median, least and most of the rounds.
    fn ratio(&self, price: f64) -> [f64; 3] {
        let ratio = |round: &Vec<Figure>| {
            round[ADAPTIVE].cost(price) / round[0].cost(price).min(round[1].cost(price))
        };
        median(self.figures.iter().map(ratio).collect())
    }

    fn bound(&self) -> f64 {
        if self.shape == Shape::Fixed { 1.25 } else { 2.0 }
    }
}

/// Median, least and most.
fn median(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    let (low, high) = ((figures.len() - 1) / 2, figures.len() / 2);
    [f64::midpoint(figures[low], figures[high]), figures[0], figures[figures.len() - 1]]
}

fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// p50 / CPU µs a message = cost, for each variant, and what is judged.
pub fn markdown(rows: &[Row], variants: &[&str], price: f64) -> String {
    let mut text = format!("p50 µs + {price} × CPU µs a message = cost; medians of the rounds\n\n");
    let _ = writeln!(
        text,
        "| gap | | {} | adaptive : cheaper of the first two | of a core |",
        variants.join(" | ")
    );
    let _ = writeln!(text, "|---|---|{}---|---|", "---|".repeat(variants.len()));
    let (mut met, mut judged) = (0, 0);
    for row in rows {
        let _ = write!(text, "| {} | {} |", row.case.name, row.shape.name());
        for variant in 0..variants.len() {
            let [p50, cpu, cost] = [
                row.of(variant, |f| f.p50_us),
                row.of(variant, |f| f.cpu_us),
                row.of(variant, |f| f.cost(price)),
            ];
            let _ = write!(text, " {} + {price} × {} = **{}** |", short(p50), short(cpu), short(cost));
        }
        let ([ratio, least, most], bound) = (row.ratio(price), row.bound());
        let verdict = |ok: bool| if ok { "met" } else { "**missed**" };
        let _ = write!(text, " {ratio:.2} ({least:.2}–{most:.2}) ≤ {bound} {} |", verdict(ratio <= bound));
        (met, judged) = (met + usize::from(ratio <= bound), judged + 1);
        let core = row.of(ADAPTIVE, |f| f.core_pct);
        if row.case.gap.as_millis() >= 10 {
            let _ = writeln!(text, " {core:.2} % {} |", verdict(core < IDLE_PCT));
            (met, judged) = (met + usize::from(core < IDLE_PCT), judged + 1);
        } else {
            let _ = writeln!(text, " {core:.1} % |");
        }
    }
    let _ = writeln!(
        text,
        "\n**{met} of {judged} met.**\n\nWhat the adaptive worker said of itself at the end, last round:\n"
    );
    for row in rows {
        let Some(figure) = row.figures.last().map(|round| &round[ADAPTIVE]) else { continue };
        let _ = writeln!(
            text,
            "    {:>5} {:<11} wakes a message {:.2}, p99 {} µs; {:?}",
            row.case.name,
            row.shape.name(),
            figure.wakes,
            short(figure.p99_us),
            figure.worker
        );
    }
    text
}
