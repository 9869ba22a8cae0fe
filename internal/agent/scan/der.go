package scan

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
)

// sector is the alignment of files on disks and file systems, in bytes.
const sector = 512

// pkcs12 follows the outer length in a PKCS #12 file: version 3, and a sequence. Source: RFC 7292, 4; RFC 2315, 14.
var pkcs12 = []byte{0x02, 0x01, 0x03, 0x30}

// Object identifiers of the PKCS #12 bags with a private key. Source: RFC 7292, 4.2.
var (
	keyBag         = []byte{0x06, 0x0b, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x01}
	shroudedKeyBag = []byte{0x06, 0x0b, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x02}
)

// binaryKey returns the kind of private key or key store at the beginning of the content, with a hash. It is used at
// the beginning of files only, because programs contain similar templates elsewhere. DER keys must parse.
func binaryKey(content []byte) (what, fingerprint string) {
	if len(content) < 16 {
		return "", ""
	}
	switch content[0] {
	case 0x30:
		return derKey(content)
	case 0xFE, 0xCE:
		return javaKeys(content)
	case 0x05:
		return keytab(content)
	case 'L':
		if bytes.HasPrefix(content, []byte("LUKS\xba\xbe\x00")) {
			return "header of an encrypted disk (LUKS)", sum(content[:min(len(content), sector)])
		}
	case 'o':
		if bytes.HasPrefix(content, []byte("openssh-key-v1\x00\x00")) {
			return "private key (OpenSSH, binary)", sum(content[:min(len(content), sector)])
		}
	case 0x94, 0x95, 0xC5:
		return openPGP(content)
	}
	return "", ""
}

func derKey(content []byte) (what, fingerprint string) {
	body, whole := derSequence(content)
	if body == nil {
		return "", ""
	}
	if bytes.HasPrefix(body, pkcs12) {
		// A store with only certificates has neither bag.
		if bytes.Contains(whole, keyBag) || bytes.Contains(whole, shroudedKeyBag) {
			return "private key (PKCS #12)", sum(whole)
		}
		return "", ""
	}
	// PKCS #8, encrypted: an algorithm of PKCS #5 or PKCS #12, then the key.
	if len(body) > 64 && body[0] == 0x30 && (bytes.HasPrefix(body[2:], pkcs5) || bytes.HasPrefix(body[2:], pkcs12PBE)) {
		return "private key (PKCS #8, encrypted)", sum(whole)
	}
	// All three forms begin with version 0 or 1.
	if len(body) < 32 || body[0] != 0x02 || body[1] != 0x01 || body[2] > 1 {
		return "", ""
	}
	if _, err := x509.ParsePKCS8PrivateKey(whole); err == nil {
		return "private key (PKCS #8)", sum(whole)
	}
	if _, err := x509.ParsePKCS1PrivateKey(whole); err == nil {
		return "private key (PKCS #1)", sum(whole)
	}
	if _, err := x509.ParseECPrivateKey(whole); err == nil {
		return "private key (SEC 1)", sum(whole)
	}
	return "", ""
}

// Prefixes of the object identifiers for encrypted keys. Source: RFC 8018, A; RFC 7292, C.
var (
	pkcs5     = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05}
	pkcs12PBE = []byte{0x06, 0x0a, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01}
)

// derSequence returns the body of the sequence at the beginning of the content, and the whole sequence if complete. A
// PKCS #12 file may be longer than the content; then the available part is returned.
func derSequence(content []byte) (body, whole []byte) {
	length, head := int(content[1]), 2
	switch {
	case content[1] == 0x81:
		length, head = int(content[2]), 3
	case content[1] == 0x82:
		length, head = int(content[2])<<8|int(content[3]), 4
	case content[1] == 0x80:
		// Indefinite length, as some libraries write PKCS #12.
		length = len(content) - head
	case content[1] == 0x83:
		length, head = int(content[2])<<16|int(content[3])<<8|int(content[4]), 5
	case content[1] > 0x80:
		return nil, nil
	}
	end := head + length
	if end > len(content) {
		if !bytes.HasPrefix(content[head:], pkcs12) {
			return nil, nil
		}
		end = len(content)
	}
	return content[head:end], content[:end]
}

// Magic numbers and entry types of Java's key stores. Source: OpenJDK, sun.security.provider.JavaKeyStore.
const (
	magicJKS   = 0xFEEDFEED
	magicJCEKS = 0xCECECECE
	javaKey    = 1
	javaTrust  = 2
	javaSecret = 3
)

// javaKeys reports a key in a Java key store. A trust store has only certificates.
func javaKeys(content []byte) (what, fingerprint string) {
	u32 := binary.BigEndian.Uint32
	if magic := u32(content); magic != magicJKS && magic != magicJCEKS || u32(content[4:]) > 2 {
		return "", ""
	}
	count, rest := u32(content[8:]), content[12:]
	take := func(n int) []byte {
		if n < 0 || n > len(rest) {
			rest = nil
			return nil
		}
		taken := rest[:n]
		rest = rest[n:]
		return taken
	}
	text := func() {
		if n := take(2); n != nil {
			take(int(binary.BigEndian.Uint16(n)))
		}
	}
	for range min(count, 10_000) {
		tag := take(4)
		if tag == nil {
			return "", ""
		}
		switch u32(tag) {
		case javaKey, javaSecret:
			return "private key (Java key store)", sum(content[:min(len(content), after)])
		case javaTrust:
			text()
			take(8)
			text()
			if n := take(4); n != nil {
				take(int(u32(n)))
			}
		default:
			return "", ""
		}
	}
	return "", ""
}

// keytab recognizes a Kerberos keytab: version 5.2, and the length of the first entry. Source: MIT Kerberos, keytab
// file format.
func keytab(content []byte) (what, fingerprint string) {
	if content[1] != 2 {
		return "", ""
	}
	length, parts := binary.BigEndian.Uint32(content[2:]), binary.BigEndian.Uint16(content[6:])
	if length < 16 || length > 4096 || parts == 0 || parts > 8 || int(length)+6 > len(content) {
		return "", ""
	}
	return "Kerberos keytab", sum(content[:length+6])
}

// openPGP recognizes a secret key packet: tag 5, version 4, and a known algorithm. Source: RFC 4880, 4.2 and 5.5.
func openPGP(content []byte) (what, fingerprint string) {
	body := content[2:]
	switch content[0] {
	case 0x95:
		body = content[3:]
	case 0xC5:
		if content[1] >= 192 {
			body = content[3:]
		}
	}
	created := binary.BigEndian.Uint32(body[1:])
	known := bytes.IndexByte([]byte{1, 2, 3, 16, 17, 18, 19, 22, 25, 27}, body[5]) >= 0
	if body[0] != 4 || !known || created < 0x30000000 || created > 0x90000000 {
		return "", ""
	}
	return "private key (OpenPGP)", sum(content[:min(len(content), sector)])
}

// binaryKeys calls found for keys at the beginning of every sector, or only of the first sector.
func (w *window) binaryKeys(every bool, found func(secretHit)) {
	first := w.from + int((sector-(w.offset+int64(w.from))%sector)%sector)
	for p := first; p < w.to; p += sector {
		if !every && w.offset+int64(p) > 0 {
			return
		}
		if !keyBegins[w.data[p]] {
			continue
		}
		if what, fingerprint := binaryKey(w.data[p:min(len(w.data), p+after)]); what != "" {
			found(secretHit{kind: PrivateKey, what: what, offset: w.offset + int64(p), sum: fingerprint})
		}
	}
}

var keyBegins = alphabet("\x30\xfe\xce\x05Lo\x94\x95\xc5")
