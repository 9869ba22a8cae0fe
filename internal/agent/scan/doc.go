// Package scan searches for data that must not be in a clone: private keys, tokens, and identities of the donor. It
// reads a directory tree or a raw disk image, including free blocks.
//
// The package decides only what looks like a secret. The caller decides which findings may stay and which rule failed
// (Options). The search checks for data unknown to the rules. Therefore it knows no rules, profiles or actions, and
// shares no code with applying or verifying rules. A finding has the place and kind of a secret, never its content.
//
// Streams of any length are read in bounded memory. Not found are: encrypted secrets, compression other than gzip and
// zip, passwords chosen by people, unknown key formats, and in an image the text of fragmented files.
package scan
