package payload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/payload"
	"github.com/tenetdev/tenet/policy"
)

func key(id string) payload.Key {
	return payload.Key{ID: id, Secret: bytes.Repeat([]byte{id[len(id)-1]}, 32)}
}

func keys(t testing.TB, ids ...string) *payload.Keys {
	t.Helper()
	var list []payload.Key
	for _, id := range ids {
		list = append(list, key(id))
	}
	k, err := payload.NewKeys(list...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func codec(k *payload.Keys, how policy.Codec) *payload.Codec {
	return payload.New(payload.Options{Keys: k, Queue: func(string) policy.Codec { return how }})
}

func encode(t testing.TB, c *payload.Codec, text string) []byte {
	t.Helper()
	sealed, err := c.Encode("mail", "payload email", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestATextComesBackAsItWas(t *testing.T) {
	k := keys(t, "k1")
	rapid.Check(t, func(t *rapid.T) {
		how := policy.Codec{CompressAbove: rapid.IntRange(0, 200).Draw(t, "above"), Encrypt: rapid.Bool().Draw(t, "encrypt")}
		plain := bytes.Repeat(rapid.SliceOf(rapid.Byte()).Draw(t, "text"), rapid.IntRange(1, 50).Draw(t, "times"))
		if job.Sealed(plain) {
			t.Skip("a text that looks encoded")
		}
		c := codec(k, how)
		sealed, err := c.Encode("q", "payload t", plain)
		if err != nil {
			t.Fatal(err)
		}
		if how.Encrypt && len(plain) > 8 && bytes.Contains(sealed, plain) {
			t.Fatalf("the encrypted text shows: %s", sealed)
		}
		if job.Sealed(sealed) && !json.Valid(sealed) {
			t.Fatalf("%s is not JSON", sealed)
		}
		got, err := job.Open(c, "t", sealed)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%q became %q, %v", plain, got, err)
		}
	})
}

func TestOnlyWhatBecomesShorterIsCompressed(t *testing.T) {
	long := strings.Repeat("all work and no play ", 500)
	c := codec(nil, policy.Codec{CompressAbove: 4096})
	if sealed := encode(t, c, long); len(sealed) > len(long)/10 {
		t.Errorf("%d bytes became %d", len(long), len(sealed))
	} else if seal, _ := job.ReadSeal(sealed); seal.String() != "compressed with zstd, 10500 bytes" {
		t.Errorf("seal %q", seal)
	}
	for name, text := range map[string]string{"short": long[:4096], "random": string(encode(t, codec(keys(t, "k1"), policy.Codec{Encrypt: true}), long))[20:]} {
		if got := encode(t, c, text); string(got) != text {
			t.Errorf("the %s text of %d bytes became %d", name, len(text), len(got))
		}
	}
}

func TestAChangedOrMovedTextIsNotDecoded(t *testing.T) {
	c := codec(keys(t, "k1", "k2"), policy.Codec{CompressAbove: 10, Encrypt: true})
	sealed := encode(t, c, `{"to":"ann@example.com","text":"hello hello hello hello"}`)
	if _, err := c.Decode("payload sms", sealed); err == nil || errors.Is(err, job.ErrNoKey) {
		t.Errorf("a payload of another type: %v", err)
	}
	if _, err := c.Decode("output email", sealed); err == nil {
		t.Error("a payload was decoded as an output")
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if got, err := c.Decode("payload email", changed); err == nil && !sameEnvelope(t, sealed, changed) {
			t.Fatalf("byte %d changed, decoded %q from %s", i, got, changed)
		}
	}
	for i := range sealed {
		if _, err := c.Decode("payload email", sealed[:i]); err == nil {
			t.Errorf("decoded from the first %d bytes", i)
		}
	}
}

// sameEnvelope reports whether a change left the values as they were, such as one of a letter's case in a name.
func sameEnvelope(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y struct {
		job.Seal
		Data []byte `json:"data"`
	}
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && x.Seal == y.Seal && bytes.Equal(x.Data, y.Data)
}

func TestAKeyIsReplacedByPuttingANewOneInFront(t *testing.T) {
	encrypt := policy.Codec{Encrypt: true}
	before := codec(keys(t, "k1"), encrypt)
	after := codec(keys(t, "k2", "k1"), encrypt)
	old := encode(t, before, `"hello"`)
	if got, err := after.Decode("payload email", old); err != nil || string(got) != `"hello"` {
		t.Errorf("%s, %v", got, err)
	}
	fresh := encode(t, after, `"hello"`)
	if seal, _ := job.ReadSeal(fresh); seal.String() != "encrypted with key k2, 7 bytes" {
		t.Errorf("seal %q", seal)
	}
	for name, c := range map[string]*payload.Codec{"old": before, "none": payload.New(payload.Options{})} {
		if _, err := c.Decode("payload email", fresh); !errors.Is(err, job.ErrNoKey) || !strings.Contains(err.Error(), "k2") {
			t.Errorf("%s keys: %v", name, err)
		}
	}
	if another := string(encode(t, after, `"hello"`)); another == string(fresh) {
		t.Error("a nonce was used twice")
	}
}

// TestACompressedTextCannotGrowWithoutBound decodes 100 MiB of zeros, of which the envelope says that they are
// fewer, or more than a payload may have.
func TestACompressedTextCannotGrowWithoutBound(t *testing.T) {
	var bomb bytes.Buffer
	w, err := zstd.NewWriter(&bomb)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 100 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, payload.MaxSize, payload.MaxSize + 1} {
		text, err := json.Marshal(map[string]any{"$tenet_payload": 1, "zip": "zstd", "size": size, "data": bomb.Bytes()})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := payload.New(payload.Options{}).Decode("payload t", text); err == nil {
			t.Errorf("size %d: decoded %d bytes", size, len(got))
		}
	}
}

func TestAQueueThatWantsEncryptionNeedsKeys(t *testing.T) {
	if _, err := codec(nil, policy.Codec{Encrypt: true}).Encode("mail", "payload t", []byte("1")); err == nil || !strings.Contains(err.Error(), "queue mail") {
		t.Errorf("error %v", err)
	}
}

func TestKeysAreReadFromLines(t *testing.T) {
	const secret = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
	k, err := payload.ReadKeys(strings.NewReader("# of the shop\n\nk2 " + secret + "\n  k1\t" + secret + "\n"))
	if err != nil || fmt.Sprint(k.IDs()) != "[k2 k1]" {
		t.Fatalf("%v, %v", k, err)
	}
	for text, want := range map[string]string{
		"":                                     "0 keys",
		"k1":                                   "line 1: write an ID and a key",
		"k1 nothing!":                          "line 1: the key is not base64",
		"k1 QUFB":                              "key k1 has 3 bytes, not 32",
		"k1 " + secret + "\nk1 " + secret:      "key k1 is given twice",
		"k/1 " + secret:                        "its ID is not",
		strings.Repeat("x", 65) + " " + secret: "its ID is not",
	} {
		if _, err := payload.ReadKeys(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error shows a key", text)
		}
	}
}

func TestAKeyDoesNotShowItsSecret(t *testing.T) {
	one := payload.Key{ID: "k1", Secret: []byte("SECRETSECRETSECRETSECRETSECRETSE")}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, one); strings.Contains(text, "SECRET") || strings.Contains(text, "83") {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	c := codec(keys(f, "k1"), policy.Codec{CompressAbove: 1, Encrypt: true})
	f.Add(encode(f, c, strings.Repeat("x", 100)))
	f.Add(encode(f, codec(nil, policy.Codec{CompressAbove: 1}), strings.Repeat("x", 1000)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := c.Decode("payload t", text); err == nil && len(got) > payload.MaxSize {
			t.Errorf("decoded %d bytes", len(got))
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		text := []byte(strings.Repeat(`{"to":"ann@example.com","n":123456},`, size/36+1)[:size])
		for name, how := range map[string]policy.Codec{"none": {}, "zstd": {CompressAbove: 1}, "encrypt": {Encrypt: true}, "both": {CompressAbove: 1, Encrypt: true}} {
			c := codec(keys(b, "k1"), how)
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					sealed, err := c.Encode("mail", "payload t", text)
					if err == nil {
						_, err = job.Open(c, "t", sealed)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
