//! Bytes as hexadecimal digits, as hashes and random names are written.

/// Returns two lowercase digits for each byte.
#[must_use]
pub fn of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(super::of(&[0x00, 0x0a, 0xff]), "000aff");
    }
}
