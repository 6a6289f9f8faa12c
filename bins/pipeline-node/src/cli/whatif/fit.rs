//! Costs from counts: how much of a time is for each call, each item and each byte, by least squares over cells of different
//! sizes. Deliberately without negative parts (a cost below nothing is noise), and relative: a small cell counts as a large one.

use super::model::costs::Service;

/// What was done, and how long it took.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// How often.
    pub calls: f64,
    /// Items.
    pub items: f64,
    /// Bytes.
    pub bytes: f64,
    /// Nanoseconds of CPU time.
    pub ns: f64,
}

/// The service that fits best: of all choices of parts that are not zero the one with the least error whose parts are all
/// above zero.
pub fn fit(rows: &[Row], with_bytes: bool) -> Service {
    let mut best = (f64::INFINITY, [0.0; 3]);
    for mask in 1..8_u8 {
        if mask & 4 != 0 && !with_bytes {
            continue;
        }
        let Some(parts) = solve(rows, mask) else { continue };
        let error = error(rows, parts);
        // A part more has to be worth it: with as many parts as cells everything fits.
        let price = 1.0 + 0.02 * f64::from(mask.count_ones());
        if parts.iter().all(|part| *part >= 0.0) && error * price < best.0 {
            best = (error * price, parts);
        }
    }
    let [call_ns, item_ns, byte_ns] = best.1;
    Service { call_ns, item_ns, byte_ns }
}

fn terms(row: &Row) -> [f64; 3] {
    [row.calls, row.items, row.bytes]
}

fn error(rows: &[Row], parts: [f64; 3]) -> f64 {
    let off = |row: &Row| {
        let told: f64 = terms(row).iter().zip(parts).map(|(term, part)| term * part).sum();
        ((told - row.ns) / row.ns.max(1.0)).powi(2)
    };
    rows.iter().map(off).sum::<f64>() + 1e-12
}

/// Normal equations of the parts in `mask`, solved by elimination.
fn solve(rows: &[Row], mask: u8) -> Option<[f64; 3]> {
    let chosen: Vec<usize> = (0..3).filter(|i| mask >> i & 1 != 0).collect();
    let n = chosen.len();
    let mut matrix = vec![vec![0.0; n + 1]; n];
    for row in rows.iter().filter(|row| row.ns > 0.0) {
        let scaled: Vec<f64> = chosen.iter().map(|i| terms(row)[*i] / row.ns).collect();
        for i in 0..n {
            for j in 0..n {
                matrix[i][j] += scaled[i] * scaled[j];
            }
            matrix[i][n] += scaled[i];
        }
    }
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| matrix[*a][i].abs().total_cmp(&matrix[*b][i].abs()))?;
        matrix.swap(i, pivot);
        let scale = matrix[i][i];
        if scale.abs() < 1e-30 {
            return None;
        }
        let row = matrix[i].clone();
        for (_, other) in matrix.iter_mut().enumerate().filter(|(k, _)| *k != i) {
            let factor = other[i] / scale;
            other.iter_mut().zip(&row).for_each(|(a, b)| *a -= factor * b);
        }
    }
    let mut parts = [0.0; 3];
    for (i, part) in chosen.iter().enumerate() {
        parts[*part] = matrix[i][n] / matrix[i][i];
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(service: Service, calls: f64, items: f64, bytes: f64) -> Row {
        let ns = service.call_ns * calls + service.item_ns * items + service.byte_ns * bytes;
        Row { calls, items, bytes, ns }
    }

    /// Costs that made the times are found again from cells of four sizes; a part that is not there comes to nothing, also with
    /// some noise.
    #[test]
    fn finds_what_made_the_times() {
        let true_one = Service { call_ns: 2_000.0, item_ns: 300.0, byte_ns: 0.1 };
        let cells = [(1.0, 1.0, 4e3), (4.0, 64.0, 262e3), (16.0, 16.0, 1e6), (8.0, 8.0, 8e6)];
        let rows: Vec<Row> = cells.iter().map(|(c, i, b)| row(true_one, *c, *i, *b)).collect();
        let found = fit(&rows, true);
        assert!((found.call_ns - 2_000.0).abs() < 1.0 && (found.byte_ns - 0.1).abs() < 1e-4, "{found:?}");
        let no_bytes = Service { byte_ns: 0.0, ..true_one };
        let noisy = |(i, (c, n, b)): (usize, &(f64, f64, f64))| {
            let mut row = row(no_bytes, *c, *n, *b);
            row.ns *= [1.01, 0.99, 1.0, 1.01][i];
            row
        };
        let rows: Vec<Row> = cells.iter().enumerate().map(noisy).collect();
        let found = fit(&rows, true);
        assert!(found.byte_ns * 8e6 < 0.1 * rows[3].ns && found.item_ns > 200.0, "{found:?}");
        assert_eq!(fit(&rows, false).byte_ns, 0.0);
    }
}
