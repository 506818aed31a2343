// Package fingerprint tells failures apart that one catch-all rule matches, and keeps repeats of one failure
// together, from the type and the message of an error alone.
package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// Version names the normalisation. A fingerprint is part of names that are stored, so any change of what Of
	// returns for any input needs another version; testdata/golden.txt holds what the present one returns.
	Version = "fp:v1"
	// Length is the length of a fingerprint, in characters.
	Length = 8
	// maxSignature is the longest error signature, in bytes, as in the schema.
	maxSignature = 120
	// maxType bounds what counts of a type's name, in bytes.
	maxType = 256
)

// Of is the fingerprint of an error: eight hexadecimal digits that depend on nothing but the outermost of its types
// and its normalised message. It is the same on every machine. Types are those of the error and its causes,
// outermost first, and may be missing.
func Of[T ~string](types []T, message string) string {
	var buffer [2*maxOutput + len(Version) + 2]byte // all of what is hashed, so that nothing is allocated for it
	said := append(buffer[:0], Version+"\n"...)
	if len(types) > 0 {
		name := string(types[0])
		said = normalise(said, strings.TrimLeft(name[:min(len(name), maxType)], "*"))
	}
	said = normalise(append(said, '\n'), message)
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:Length/2])
}

// Append gives a signature with a fingerprint behind it, as in tool-exception-1a2b3c4d. A signature that is too long
// for both is cut; it stays one that ends in a letter or a digit.
func Append(signature, fingerprint string) string {
	const room = maxSignature - 1 - Length
	if len(signature) > room {
		signature = strings.TrimRight(signature[:room], "-_.")
	}
	return signature + "-" + fingerprint
}
