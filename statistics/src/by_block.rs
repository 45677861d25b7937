//! Values of one side of a comparison by the number of their block.

/// Values of one side, each block's in the order in which they came, made of pairs of block and
/// value.
///
/// ```
/// use surtax_statistics::ByBlock;
///
/// let values: ByBlock = [(7, 1.0), (3, 5.0), (7, 2.0)].into_iter().collect();
/// let blocks: Vec<(u32, &[f64])> = values.blocks().collect();
/// assert_eq!(blocks, [(3, &[5.0][..]), (7, &[1.0, 2.0][..])]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByBlock {
    values: Vec<f64>,
    /// Each block, and the end of its values.
    ends: Vec<(u32, usize)>,
}

impl ByBlock {
    /// The blocks in the order of their numbers, with the values of each.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, &[f64])> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let of = |(begin, (block, end)): (usize, &(u32, usize))| {
            Some((*block, self.values.get(begin..*end)?))
        };
        begins.zip(&self.ends).filter_map(of)
    }
}

impl FromIterator<(u32, f64)> for ByBlock {
    fn from_iter<I: IntoIterator<Item = (u32, f64)>>(pairs: I) -> Self {
        let mut pairs: Vec<(u32, f64)> = pairs.into_iter().collect();
        // It keeps the order of a block's own.
        pairs.sort_by_key(|(block, _)| *block);
        let mut all = Self::default();
        all.values.reserve_exact(pairs.len());
        for (block, value) in pairs {
            all.values.push(value);
            let end = all.values.len();
            match all.ends.last_mut() {
                Some((last, until)) if *last == block => *until = end,
                _ => all.ends.push((block, end)),
            }
        }
        all
    }
}
