//! Amounts as a field: a count, and so many numbers of quantities with their amounts, the numbers
//! ascending.

use super::{Field, Malformed};
use crate::amount::{Amounts, Key, Quantity};

impl Field for Amounts {
    fn put(&self, out: &mut Vec<u8>) {
        let pairs: Vec<(u16, u64)> = self.iter().map(|(key, amount)| (key.0, amount)).collect();
        pairs.put(out);
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let pairs: Vec<(u16, u64)> = Field::take(from)?;
        if let Some((key, _)) = pairs.iter().find(|(key, _)| Quantity::of(Key(*key)).is_none()) {
            return Err(Malformed::Quantity(*key));
        }
        if let Some(twice) = pairs.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(Malformed::Quantity(twice[1].0));
        }
        Ok(pairs.into_iter().map(|(key, amount)| (Key(key), amount)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_unknown_quantities_and_of_one_quantity_twice_are_refused() {
        let amounts = |pairs: &[(u16, u64)]| {
            let mut bytes = Vec::new();
            pairs.to_vec().put(&mut bytes);
            Amounts::take(&mut bytes.as_slice())
        };
        let both = amounts(&[(1, 5), (3, 0)]).unwrap();
        assert_eq!(both, [(Key(1), 5), (Key(3), 0)].into_iter().collect());
        for (pairs, refused) in
            [(vec![(1, 5), (999, 1)], 999), (vec![(1, 5), (1, 6)], 1), (vec![(3, 5), (1, 6)], 1)]
        {
            assert_eq!(amounts(&pairs), Err(Malformed::Quantity(refused)), "{pairs:?}");
        }
    }
}
