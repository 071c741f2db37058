class Words:
    def __init__(self, text):
        self.rows = {word: row for row, word in enumerate(sorted(set(text.split())))}

    def add(self, word):
        self.rows[word] = len(self.rows)

    def __len__(self):
        return len(self.rows)

    def encode(self, text):
        return [self.rows[word] for word in text.split()]
