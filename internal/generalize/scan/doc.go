// Package scan looks for what must not be in a clone: private keys, tokens, and the identities of the
// machine that the disk came from. It reads a directory tree or a raw disk image, free blocks included.
//
// It decides what looks like a secret, and nothing else: which findings may stay, and which rule should
// have removed one, the caller says (Options). It is the check on everything that the rules of a profile
// do not know of, so it shares no code with what applies or verifies them; it knows no rules, no profiles
// and no actions. It never gives out a secret: a finding says where, and of what kind.
//
// It reads streams of any length in bounded memory. What it does not see: secrets that are compressed or
// encrypted, passwords that people chose, keys in formats that it does not know, and, in an image, text
// that is torn apart because its file lies in fragments.
package scan
