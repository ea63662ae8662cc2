#!/bin/sh
# Prints the home of a Java that Spark can use (17 or later); `make` hands it on as JAVA_HOME.
# Where there is none it installs Debian's headless one, as root and with apt-get; else it names the command to run.
set -eu

LEAST=17
PACKAGES="openjdk-17-jdk-headless openjdk-21-jdk-headless"

# The major version of a java program; nothing when it does not run.
major() {
    "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

# Candidates in the order of the user's wishes: JAVA_HOME, the PATH, where systems put them.
candidates() {
    [ -z "${JAVA_HOME:-}" ] || echo "$JAVA_HOME/bin/java"
    command -v java || true
    for home in /usr/lib/jvm/* /Library/Java/JavaVirtualMachines/*/Contents/Home /opt/homebrew/opt/openjdk*; do
        echo "$home/bin/java"
    done
}

find_java() {
    candidates | while read -r java; do
        [ -x "$java" ] || continue
        version=$(major "$java")
        if [ "${version:-0}" -ge "$LEAST" ]; then
            # A link on the PATH leads to <home>/bin/java.
            dirname "$(dirname "$(readlink -f "$java")")"
            break
        fi
    done
}

# The first of the packages that this system knows.
package() {
    for name in $PACKAGES; do
        if apt-cache show "$name" >/dev/null 2>&1; then
            echo "$name"
            break
        fi
    done
}

home=$(find_java)
if [ -z "$home" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    [ -n "$(package)" ] || apt-get update -qq >&2 || true
    name=$(package)
    if [ -n "$name" ]; then
        echo "Spark needs Java $LEAST or later; installing $name" >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$name" >&2 || true
        home=$(find_java)
    fi
fi
if [ -z "$home" ]; then
    if command -v brew >/dev/null; then
        order="brew install openjdk@17"
    elif command -v dnf >/dev/null; then
        order="sudo dnf install -y java-17-openjdk-devel"
    else
        order="sudo apt-get install -y openjdk-17-jdk-headless"
    fi
    echo "Spark needs Java $LEAST or later, and none was found. Install it with" >&2
    echo "    $order" >&2
    echo "or set JAVA_HOME to one that is there." >&2
    exit 1
fi
echo "$home"
