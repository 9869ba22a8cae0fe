package scan

import (
	"bytes"
	"crypto/x509"
)

// sector is the unit in which disks and file systems place the begin of a file.
const sector = 512

// pkcs12 is what stands in a PKCS #12 file after its outer length: version 3, and the object identifier of
// the data that follows. Source: RFC 7292, 4; RFC 2315, 14.
var pkcs12 = []byte{0x02, 0x01, 0x03, 0x30}

// binaryKey says whether content begins with a private key in DER, or with a PKCS #12 file, and what its
// hash is. It is asked at the begin of files only: elsewhere programs hold templates that look alike. A
// key counts if it can be read as one.
func binaryKey(content []byte) (what, fingerprint string) {
	body, whole := derSequence(content)
	if body == nil {
		return "", ""
	}
	if bytes.HasPrefix(body, pkcs12) {
		return "private key (PKCS #12)", sum(whole)
	}
	// All three forms begin with a version of 0 or 1.
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

// derSequence returns the body of the sequence that content begins with, and the sequence itself, if all
// of it is there. A PKCS #12 file may be longer than what there is; then the begin has to do.
func derSequence(content []byte) (body, whole []byte) {
	if len(content) < 16 || content[0] != 0x30 {
		return nil, nil
	}
	length, head := int(content[1]), 2
	switch {
	case content[1] == 0x81:
		length, head = int(content[2]), 3
	case content[1] == 0x82:
		length, head = int(content[2])<<8|int(content[3]), 4
	case content[1] >= 0x80:
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

// binaryKeys calls found for keys at the begin of sectors; only for the first sector if that is all that
// can be a file's begin.
func (w *window) binaryKeys(every bool, found func(hit)) {
	first := w.from + int((sector-(w.offset+int64(w.from))%sector)%sector)
	for p := first; p < w.to; p += sector {
		if !every && w.offset+int64(p) > 0 {
			return
		}
		if w.data[p] != 0x30 {
			continue
		}
		if what, fingerprint := binaryKey(w.data[p:min(len(w.data), p+after)]); what != "" {
			found(hit{kind: PrivateKey, what: what, offset: w.offset + int64(p), sum: fingerprint})
		}
	}
}
