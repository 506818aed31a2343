package rules

// sep is what stands between a name and its value in JSON, JSON within JSON, headers, forms and logs.
const sep = `\\{0,3}["']?\s{0,4}[:=]\s{0,4}\[?\\{0,3}["']?`

// value is what stands there. A placeholder may begin it, of which its delimiter is a part.
const value = `((?:\[redacted[:0-9a-f]{0,7}\])?[^\s"'&,;\\\]}]{6,})`

// own are the rules for errors: headers, addresses, fields, and tokens of which a vendor may change the length.
var own = []Rule{
	// Private keys in PEM, whole or cut off.
	{ID: "pem-private-key", Expression: `(-----BEGIN [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s\\,:-]*)`, Reach: 4096},
	// JSON Web Tokens (RFC 7519), signed, unsigned and encrypted: base64url parts of which the first begins with {" .
	{ID: "json-web-token", Reach: 2048,
		Expression: `\b(eyJ[A-Za-z0-9_-]{8,}\.(?:[A-Za-z0-9_-]{8,}|\.[A-Za-z0-9_-]{8,})(?:\.[A-Za-z0-9_-]+){0,3})`},
	// Tokens whose vendors gave them a prefix so that they can be found.
	{ID: "prefixed-token", Made: true, Reach: 256,
		Expression: `\b((?:[spr]k[-_]|gh[opusr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|npm_|hf_|ya29\.|AIza|ATATT)[A-Za-z0-9_=-]{16,})`},
	{ID: "aws-key-id", Expression: `\b(A[KS]IA[0-9A-Z]{16})`},
	// An Authorization value: the scheme, then a token68 that is no parameter of a challenge (RFC 9110 §11).
	{ID: "authorization-scheme", Made: true, Reach: 256,
		Expression: `(?i)\b(?:bearer|basic|token|negotiate)[ \t]+([A-Za-z0-9._~+/-]{8,})(?:=*(?:[\s',;)\]}<\\]|$)|")`},
	// The same behind the name of its header, where no word can stand.
	{ID: "authorization-header", Reach: 256,
		Expression: `(?i)\bauthorization` + sep + `[A-Za-z0-9-]{1,32}\s{1,4}([^\s"',;\\]{6,})`},
	{ID: "authorization-value", Made: true, Reach: 256, Expression: `(?i)\bauthorization` + sep + `([^\s"',;\\]{12,})`},
	// Cookies.
	{ID: "cookie", Reach: 512, Expression: `(?i)\b(?:set-)?cookie` + sep + `([^\s"'=;]{1,128}=[^"'\r\n\\]{2,})`},
	// user:password@ in an address, and a token in the user's place.
	{ID: "url-password", Must: "@", Expression: `(?i)\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@"'<>]{0,128}:([^\s/"'<>]{1,256})@`},
	{ID: "url-token", Must: "@", Made: true, Expression: `://([A-Za-z0-9._~-]{20,256})@`},
	// name=value and "name": "value" where the name says that the value is a secret.
	{ID: "named-secret", Named: true, Reach: 128,
		Expression: `(?i)(?:secret(?:[-_]?(?:access|api|signing))?[-_ ]?key|private[-_ ]?key|client[-_]?secret|passphrase|password|passwd|pwd|secret|credentials?)` +
			sep + value},
	// The same where the name may also stand before a word.
	{ID: "named-key", Named: true, Made: true, Reach: 128,
		Expression: `(?i)(?:api|app|access|account|auth|encryption|master|service|shared|signing|subscription|webhook)[-_ ]?key` +
			sep + value},
	{ID: "named-token", Named: true, Made: true, Reach: 128,
		Expression: `(?i)(?:access|api|auth|bot|bearer|csrf|device|id|oauth|personal|refresh|security|session|service|user|xsrf)[-_ ]?token` +
			sep + value},
	// Names that texts use for other things, too: only as a JSON key or a query parameter.
	{ID: "short-name", Named: true, Made: true, Reach: 128,
		Expression: `(?i)["'?&](?:token|key|code_verifier|assertion|otp|pin|sid|session)\\{0,3}["']?\s{0,4}[:=]\s{0,4}\\{0,3}["']?([A-Za-z0-9._~+/=-]{8,})`},
	// Signatures of signed addresses.
	{ID: "signed-url", Reach: 128,
		Expression: `(?i)(?:[?&;]|\\u0026)(?:sig|signature|x-amz-signature|x-amz-credential|x-goog-signature|x-goog-credential)=([^&\s"'\\<>]{8,})`},
}
